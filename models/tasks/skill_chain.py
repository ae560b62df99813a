"""A chain of skills, each with facts that are known with a designed probability: prompts of designed difficulty.

Prompt `x s1 .. sL =`: a digit and L skills. A skill is an affine map x -> (a x + b) mod 10, and a *fact* is what one skill does to
one digit. Completion: the L running results and eos; it is right if all of them are, so a lucky last digit does not pay.

In the training data the fact (s, x) is shown correctly with probability q(s, x), otherwise as one fixed wrong digit, its
*misconception*, and the chain goes on from what was written (`models.tasks.skill_facts`). There is one right completion, so a prompt's exact
pass@1 under this law is the product of the q along it, and pass@1 of a model is one teacher-forced probability. Training and test
prompts share the skills: what is learnt on one side helps on the other.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float64, Int, Int32, Key, UInt64

from models.tasks.problems import Problems
from models.tasks.skill_facts import NUM_DIGITS, Facts, SkillChainDesign, make_facts
from models.tasks.task import ABSTAIN, Sequences, Task, begins, tokens_at_width

DIGIT_ZERO = 1  # digit d is token 1 + d
EQUALS = 11
EOS = 12
FIRST_SKILL = 13


def skill_chain(design: SkillChainDesign) -> Task:
    """Make the task.

    Args:
        design: of the difficulty.

    Returns:
        The task.
    """
    facts = make_facts(design)
    longest = max(design.lengths)
    skills = tuple(f"s{skill}" for skill in range(design.num_skills))
    return Task(
        name="skill-chain",
        labels=("<pad>", *"0123456789", "=", "<eos>", *skills),
        eos=EOS,
        max_prompt_length=longest + 2,
        horizon=longest + 1,
        prompt_form=f"a digit, {' or '.join(map(str, design.lengths))} skills, =",
        problems=_problems(design),
        is_prompt=jax.jit(partial(is_prompt, design)),
        targets=jax.jit(partial(targets, facts)),
        verify=jax.jit(partial(verify, facts)),
        correct_so_far=jax.jit(partial(correct_so_far, facts)),
        answers=jax.jit(answers),
    )


def is_prompt(design: SkillChainDesign, prompts: Sequences) -> Bool[Array, " B"]:
    """Whether each prompt is a digit, as many skills as the design has, and =.

    Args:
        design: of the difficulty.
        prompts: of B rows.

    Returns:
        [B].
    """
    width = max(design.lengths) + 2
    tokens = tokens_at_width(prompts, width)
    position, last = jnp.arange(width)[None], prompts.lengths[:, None] - 1
    is_digit = (tokens >= DIGIT_ZERO) & (tokens < DIGIT_ZERO + NUM_DIGITS)
    is_skill = (tokens >= FIRST_SKILL) & (tokens < FIRST_SKILL + design.num_skills)
    fits = jnp.where(
        position == 0,
        is_digit,
        jnp.where(position < last, is_skill, (tokens == EQUALS) | (position > last)),
    )
    return fits.all(axis=-1) & jnp.isin(prompts.lengths - 2, jnp.array(design.lengths))


def targets(facts: Facts, keys: Key[Array, " B"], prompts: Sequences) -> Sequences:
    """Draw completions in which facts are wrong as often as designed.

    Args:
        facts: of the skills.
        keys: [B] consumed.
        prompts: of B rows.

    Returns:
        [B, horizon] completions.
    """
    first, skills = _read(prompts)
    num_steps = skills.shape[1]
    uniforms = jax.vmap(lambda key: jax.random.uniform(key, (num_steps,)))(keys)
    value = first
    written: list[Array] = []
    for step in range(num_steps):
        skill = skills[:, step]
        right = jnp.asarray(facts.results, jnp.int32)[skill, value]
        wrong = jnp.asarray(facts.misconceptions, jnp.int32)[skill, value]
        known = uniforms[:, step] < jnp.asarray(facts.q, jnp.float32)[skill, value]
        value = jnp.where(known, right, wrong)
        written.append(value)
    return _complete(prompts, jnp.stack(written, axis=-1))


def right_completions(facts: Facts, prompts: Sequences) -> Sequences:
    """The right completion of each prompt.

    Args:
        facts: of the skills.
        prompts: of B rows.

    Returns:
        [B, horizon] completions.
    """
    value, skills = _read(prompts)
    written: list[Array] = []
    for step in range(skills.shape[1]):
        value = jnp.asarray(facts.results, jnp.int32)[skills[:, step], value]
        written.append(value)
    return _complete(prompts, jnp.stack(written, axis=-1))


def verify(facts: Facts, prompts: Sequences, completions: Sequences) -> Bool[Array, " B"]:
    """Whether all results of each completion are right.

    Args:
        facts: of the skills.
        prompts: of B rows.
        completions: of the same rows.

    Returns:
        [B].
    """
    right = right_completions(facts, prompts)
    return begins(completions, *right) & (completions.lengths == right.lengths)


def correct_so_far(facts: Facts, prompts: Sequences, prefixes: Sequences) -> Bool[Array, " B"]:
    """Whether all results in each prefix are right.

    Args:
        facts: of the skills.
        prompts: of B rows.
        prefixes: of the same rows.

    Returns:
        [B].
    """
    return begins(prefixes, *right_completions(facts, prompts))


def answers(prompts: Sequences, completions: Sequences) -> Int32[Array, " B"]:
    """All results of each completion, read as one decimal number.

    Args:
        prompts: of B rows.
        completions: of the same rows.

    Returns:
        [B] a number of L digits; ABSTAIN unless there are L digits and eos.
    """
    horizon = prompts.tokens.shape[1] - 1
    tokens = tokens_at_width(completions, horizon)
    length = prompts.lengths - 1
    position, last = jnp.arange(horizon)[None], length[:, None] - 1
    is_digit = (tokens >= DIGIT_ZERO) & (tokens < DIGIT_ZERO + NUM_DIGITS)
    fits = jnp.where(position < last, is_digit, (tokens == EOS) | (position > last))
    place = jnp.where(position < last, 10 ** jnp.maximum(last - 1 - position, 0), 0)
    number = (place * (tokens - DIGIT_ZERO)).sum(axis=-1)
    return jnp.where(fits.all(axis=-1) & (completions.lengths == length), number, ABSTAIN)


def success_probability(facts: Facts, prompts: Sequences) -> Float64[np.ndarray, " B"]:
    """Exact pass@1 of the law that models are trained on: the product of q along the right results.

    Args:
        facts: of the skills.
        prompts: of B rows.

    Returns:
        [B].
    """
    first, skills = (np.asarray(part) for part in _read(prompts))
    value, probability = first, np.ones(len(first))
    for step in range(skills.shape[1]):
        is_there = step < np.asarray(prompts.lengths) - 2
        known = facts.q[skills[:, step], value]
        probability = probability * np.where(is_there, known, 1.0)
        value = facts.results[skills[:, step], value]
    return probability


def _read(prompts: Sequences) -> tuple[Int32[Array, " B"], Int32[Array, "B L"]]:
    """First digit and skills; past a prompt's skills stands skill 0, whose results go unwritten."""
    tokens = tokens_at_width(prompts, prompts.tokens.shape[1])
    return tokens[:, 0] - DIGIT_ZERO, jnp.maximum(tokens[:, 1:-1] - FIRST_SKILL, 0)


def _complete(prompts: Sequences, results: Int32[Array, "B L"]) -> Sequences:
    """The results that a prompt asks for, then eos."""
    num_steps = results.shape[1]
    length = prompts.lengths[:, None] - 2
    tokens = jnp.pad(results + DIGIT_ZERO, ((0, 0), (0, 1)))
    position = jnp.arange(num_steps + 1)[None]
    tokens = jnp.where(position < length, tokens, jnp.where(position == length, EOS, 0))
    return Sequences(tokens, prompts.lengths - 1)


def _problems(design: SkillChainDesign) -> Problems:
    """Every prompt is a problem of its own; lengths are kinds and take turns."""
    lengths = np.array(design.lengths)
    longest = int(lengths.max())

    def write(
        kinds: Int[np.ndarray, " B"],
        indices: UInt64[np.ndarray, " B"],
        variants: UInt64[np.ndarray, " B"],
    ) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, " B"]]:
        del variants
        length = lengths[kinds]
        rest, first = np.divmod(indices.astype(np.int64), NUM_DIGITS)
        tokens = np.zeros((len(rest), longest + 2), np.int64)
        tokens[:, 0] = DIGIT_ZERO + first
        for step in range(longest):
            rest, skill = np.divmod(rest, design.num_skills)
            tokens[:, 1 + step] = np.where(step < length, FIRST_SKILL + skill, 0)
        tokens[np.arange(len(rest)), length + 1] = EQUALS
        return tokens, length + 2

    sizes = tuple(NUM_DIGITS * design.num_skills**length for length in design.lengths)
    return Problems(sizes, write)
