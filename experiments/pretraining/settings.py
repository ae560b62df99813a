"""What is trained, on what, and for how long."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from experiments.command_line import default
from models.tasks.registry import task
from models.tasks.task import Task
from models.training.demonstrations import BatchShape, batch_shape
from models.training.optimiser import OptimiserSettings, check_optimiser
from models.transformer.config import TransformerConfig, check_config
from theory.errors import InvalidInput

# What --steps and --weight-decay are where they are not given. Countdown with three numbers has few problems, which a model without much
# decay learns by heart; it is trained until it is right every other time.
STEPS: Mapping[str, int] = {"noisy-chain": 1000, "noisy-chain-biased": 1000}
OTHER_STEPS = 2000
WEIGHT_DECAY: Mapping[str, float] = {"countdown-3": 1.0}
OTHER_WEIGHT_DECAY = 0.1


@dataclass(frozen=True)
class Training:
    """Everything that the numbers depend on."""

    task: str = "countdown-3"
    """Task to be learned; its training prompts are never those that are tested."""

    seed: int = 0
    """Of the first weights, the order of the examples and the samples of the test."""

    steps: Annotated[int | None, default("that of the task")] = None
    """Moves of the optimiser."""

    batch: int = 128
    """Examples of a step."""

    micro_batches: int = 1
    """Parts that a step's examples are read in, one after the other: the same step with less memory."""

    row_tokens: Annotated[int | None, default("those of the longest example")] = None
    """Tokens of a row; several short examples share one."""

    width: int = 64
    """Of the residual stream."""

    layers: int = 2
    """Of attention and perceptron."""

    heads: int = 4
    """Of attention; a divisor of the width."""

    hidden: int = 176
    """Width inside the gated perceptron."""

    optimiser: OptimiserSettings = dataclasses.field(default_factory=OptimiserSettings)
    """How parameters move."""

    test_prompts: int = 256
    """Test prompts that the model is judged on."""

    samples: int = 32
    """Completions that are sampled for each of them."""


def complete(training: Training) -> Training:
    """Fill in what depends on the task, and refuse what makes no sense.

    Args:
        training: as it was given.

    Returns:
        The same without open values.

    Raises:
        InvalidInput: names the option and the mend.
    """
    learned = task(training.task)
    if training.steps is None:
        steps = STEPS.get(training.task, OTHER_STEPS)
        training = dataclasses.replace(training, steps=steps)
    if training.optimiser.weight_decay is None:
        decay = WEIGHT_DECAY.get(training.task, OTHER_WEIGHT_DECAY)
        optimiser = dataclasses.replace(training.optimiser, weight_decay=decay)
        training = dataclasses.replace(training, optimiser=optimiser)
    longest = learned.max_prompt_length + learned.horizon - 1
    if training.row_tokens is None:
        training = dataclasses.replace(training, row_tokens=longest)
    if training.row_tokens is not None and training.row_tokens < longest:
        raise InvalidInput(
            f"--row-tokens {training.row_tokens}: an example takes up to {longest}, give at least that many"
        )
    if not 0 <= training.seed < 2**32:
        raise InvalidInput(f"--seed {training.seed}: must be in 0..{2**32 - 1}")
    if training.test_prompts < 2:
        raise InvalidInput(f"--test-prompts {training.test_prompts}: must be at least 2")
    if training.samples < 1:
        raise InvalidInput(f"--samples {training.samples}: must be at least 1")
    for name in ("batch", "micro_batches", "width", "layers", "heads", "hidden"):
        number = getattr(training, name)
        if number < 1:
            raise InvalidInput(f"--{name.replace('_', '-')} {number}: must be at least 1")
    try:
        check_optimiser(training.optimiser, num_steps(training))
    except InvalidInput as error:
        name, rest = str(error).split(" ", 1)
        raise InvalidInput(f"--{name.replace('_', '-')} {rest}") from error
    check_config(transformer_config(training, learned))
    shape(training, learned)
    return training


def num_steps(training: Training) -> int:
    """Steps of a training without open values.

    Args:
        training: see `complete`.

    Returns:
        Their number.
    """
    assert training.steps is not None
    return training.steps


def shape(training: Training, learned: Task) -> BatchShape:
    """How the examples of a step are laid out.

    Args:
        training: any.
        learned: its task.

    Returns:
        The shape.

    Raises:
        InvalidInput: sizes below 1, or rows that are too short.
    """
    return batch_shape(learned, training.batch, training.micro_batches, training.row_tokens)


def transformer_config(training: Training, learned: Task) -> TransformerConfig:
    """A decoder of the Llama family, as small as it gets.

    Args:
        training: with a width and heads of at least 1.
        learned: its task.

    Returns:
        The configuration.

    Raises:
        InvalidInput: the heads do not divide the width into even parts.
    """
    if training.width % training.heads:
        raise InvalidInput(f"--heads {training.heads}: must divide --width {training.width}")
    head_dim = training.width // training.heads
    if head_dim % 2:
        raise InvalidInput(
            f"--heads {training.heads}: {head_dim} of --width {training.width} for each, must be even"
        )
    return TransformerConfig(
        vocab_size=len(learned.labels),
        width=training.width,
        num_layers=training.layers,
        num_heads=training.heads,
        num_key_value_heads=training.heads,
        head_dim=head_dim,
        hidden=training.hidden,
        context=learned.max_prompt_length + learned.horizon,
        start_token=learned.eos,
        eos=(learned.eos,),
    )
