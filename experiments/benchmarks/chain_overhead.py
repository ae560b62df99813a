"""What Markov chains cost beyond the model: suffix moves of chains that do not wait, against plain ancestral sampling.

256 chains over sequences of at most 128 tokens, about 40 on average, of a transformer with a key-value cache. Both are timed per row-step
that the device ran, so that the ratio says what a move adds to a step of the model: its random numbers, its acceptance and the copying of
slots. What share of the row-steps was useful stands beside it, with that of lockstep moves, whose batch waits for the longest proposal.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from experiments.benchmarks.ancestral import ancestral_rows
from experiments.benchmarks.pairing import BenchmarkReport, compare
from experiments.benchmarks.random_model import random_model
from models.transformer import Transformer
from theory.generation import Generation
from theory.ledger import Ledger, totals
from theory.mcmc import (
    Chains,
    MoveInfo,
    Prompts,
    asynchronous_suffix,
    suffix_regeneration,
    uniform_cut,
)

# The power is mild and the laws are sharp, so that sequences of all lengths are visited; proposals are the model's own.
ALPHA = 1.1
SHARPNESS = 10.0
# Against logits of standard deviation 10 that gives sequences of 40 tokens on average.
EOS_LOGIT = 15.7
LOCKSTEP_MOVES = 2


def run(quick: bool) -> BenchmarkReport:
    """Time a run of chains against ancestral sampling, per executed row-step.

    Args:
        quick: 64 chains, 8 moves and 64 tokens.

    Returns:
        The report; its notes say what share of the row-steps was useful.
    """
    num_rows, moves, horizon = (64, 8, 64) if quick else (256, 32, 128)
    model = random_model(
        jax.random.key(0), horizon=horizon, eos_logit=EOS_LOGIT, sharpness=SHARPNESS
    )
    key = jax.random.key(1)
    chains = _start_chains(key, model, num_rows)

    def ours() -> tuple[Chains, MoveInfo]:
        return jax.block_until_ready(_chains(key, model, chains, moves))

    def reference() -> Generation:
        return ancestral_rows(key, model, num_rows)

    sizes = {"B": num_rows, "K": moves, "T": horizon, "V": model.vocab_size}
    by_call = compare("mcmc_overhead", ours, reference, sizes)
    (after, info), drawn = ours(), reference()
    waiting = _lockstep(key, model, chains)
    executed, useful = _row_steps(chains.generation.ledger, after.generation.ledger)
    steps = totals(drawn.ledger)["row_steps_executed"]
    of_lockstep = _row_steps(chains.generation.ledger, waiting.generation.ledger)
    scale = steps / executed
    result = by_call._replace(
        ratio=by_call.ratio * scale,
        numerator=by_call.numerator / executed,
        denominator=by_call.denominator / steps,
        unit="second per executed row-step",
        low=by_call.low * scale,
        high=by_call.high * scale,
    )
    lengths = drawn.trajectories.lengths.mean(), info.num_tokens.mean(), info.accepted.mean()
    return BenchmarkReport(
        result,
        (
            f"useful row-steps: {useful / executed:.1%}; of lockstep moves: {of_lockstep[1] / of_lockstep[0]:.1%}",
            f"tokens of a draw {lengths[0]:.1f}, of a proposal {lengths[1]:.1f}; {lengths[2]:.0%} of the proposals accepted",
        ),
    )


def _row_steps(before: Ledger, after: Ledger) -> tuple[int, int]:
    """Row-steps executed and useful between two records."""
    old, new = totals(before), totals(after)
    executed, useful = (
        new[name] - old[name] for name in ("row_steps_executed", "row_steps_useful")
    )
    return executed, useful


@functools.partial(jax.jit, static_argnums=2)
def _start_chains(key: Key[Array, ""], model: Transformer, num_rows: int) -> Chains:
    none = jnp.zeros((num_rows, 0), jnp.int32)
    prompts = Prompts(none, jnp.zeros(num_rows, jnp.int32), jnp.arange(num_rows))
    return suffix_regeneration(ALPHA, 1.0, uniform_cut()).init(key, model, prompts)


@functools.partial(jax.jit, static_argnums=3)
def _chains(
    key: Key[Array, ""], model: Transformer, chains: Chains, moves: int
) -> tuple[Chains, MoveInfo]:
    # Small batches leave a device idle: the batch is halved twice and no more.
    fewest_rows = chains.rows.shape[0] // 4
    kernel = asynchronous_suffix(ALPHA, 1.0, uniform_cut(), moves, fewest_rows)
    return kernel.step(key, model, chains)


@jax.jit
def _lockstep(key: Key[Array, ""], model: Transformer, chains: Chains) -> Chains:
    kernel = suffix_regeneration(ALPHA, 1.0, uniform_cut())

    def move(now: Chains, _: None) -> tuple[Chains, None]:
        return kernel.step(key, model, now)[0], None

    return jax.lax.scan(move, chains, None, length=LOCKSTEP_MOVES)[0]
