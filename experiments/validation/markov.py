"""Markov kernels: the matrix built from their densities is reversible for the target, and the compiled kernels follow the matrix.

Every kernel is looked up in `theory.mcmc` when its check is made, and its density pieces when the matrix is built. A finite run is no draw from the
target; it is compared with its own exact law, and its distance to the target is reported.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.validation.cases import (
    ALPHA,
    Build,
    Case,
    Check,
    Jit,
    Sizes,
    cells_of,
    key_of,
)
from experiments.validation.findings import (
    Finding,
    Found,
    exact_finding,
    law_finding,
    mean_finding,
    positive_finding,
)
from theory import mcmc
from theory.errors import InvalidInput
from theory.exact import markov_chain, transition
from theory.exact.sequence_space import (
    MAX_STATES,
    SequenceSpace,
    proposal_law,
    sequence_space,
    target_law,
)
from theory.exact.transition import Transition
from theory.mcmc.chains import Chains, Design, Prompts
from theory.protocols import Kernel

STEPS = (0, 1, 2, 5)
"""After how many steps the law of a run is looked at."""

LADDERS = ((1.0, 1.5, ALPHA), (1.0, ALPHA))
"""Of each case the first whose joint states can be enumerated."""

TRIES = 3
BLOCK = 2

_ROUNDING = 1e-12  # of matrices in float64


class Suffix(NamedTuple):
    """A kernel whose state has a `generation`: `Chains`, or what can be made of them.

    Attributes:
        kernel: makes it.
        design: of its moves, for starts.
        matrix: its exact transition.
        log_reward: of sequences, for a tilted target.
        state: of the kernel, from chains.
        verdict: field of the kernel's info whose mean is the acceptance of the matrix.
    """

    kernel: Callable[[], Kernel]
    design: Callable[[], Design]
    matrix: Callable[[SequenceSpace], Transition]
    log_reward: Callable[[tuple[int, ...]], float] | None = None
    state: Callable[[Chains], Any] = lambda chains: chains
    verdict: str = "accepted"


def empty_prompts(num: int) -> Prompts:
    """Chains 0..num-1 without a prompt.

    Args:
        num: B.

    Returns:
        The prompts.
    """
    return Prompts(
        jnp.zeros((num, 0), jnp.int32), jnp.zeros(num, jnp.int32), jnp.arange(num, dtype=jnp.int32)
    )


def suffix_check(name: str, spec: Callable[[], Suffix]) -> Build:
    """The checks of a kernel whose state is `Chains`.

    Args:
        name: of the kernel.
        spec: looks it up.

    Returns:
        Makes the check; programs that it compiles serve all cases of one shape.
    """

    def build(jit: Jit) -> Check:
        found = spec()
        matrix, log_reward = found.matrix, found.log_reward
        kernel = found.kernel()
        begin, step = jit(kernel.init), jit(kernel.step)
        moves = found.design()
        start_at = starter(jit, moves)

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            space = sequence_space(case.table, moves.proposal_alpha, log_reward)
            exact, target = matrix(space), target_law(space, moves.alpha)
            key = key_of(seed, name, case)
            chains = begin(key, case.model, empty_prompts(sizes.draws))
            start = proposal_law(space)
            findings = matrix_findings(exact.matrix, target)
            findings += run_findings(
                case, sizes, chains, functools.partial(step, key), exact, start
            )
            starts = np.arange(sizes.draws) % len(space.sequences)
            begun = found.state(start_at(case, space, starts))
            after, info = step(jax.random.fold_in(key, 1), case.model, begun)
            verdicts = np.asarray(getattr(info, found.verdict), np.float64)
            verdicts = verdicts.reshape(-1, sizes.draws).mean(axis=0)  # moves of one chain
            findings += _one_step_findings(case, sizes, exact, starts, after, verdicts)
            return Found(findings, distances(exact.matrix, start, target))

        return check

    return build


def matrix_findings(matrix: np.ndarray, target: np.ndarray) -> list[Finding]:
    """What the exact matrix of a reversible kernel must satisfy.

    Args:
        matrix: [M, M].
        target: [M] its law.

    Returns:
        Detailed balance, stationarity and the spectral gap.
    """
    try:
        gap = markov_chain.spectral_gap(matrix, target).spectral
    except InvalidInput:  # not reversible, which the first row says
        gap = float("nan")
    return [
        exact_finding(
            "detailed-balance error",
            markov_chain.detailed_balance_error(matrix, target),
            0.0,
            _ROUNDING,
        ),
        exact_finding(
            "stationarity error", markov_chain.stationarity_error(matrix, target), 0.0, _ROUNDING
        ),
        positive_finding("spectral gap", gap),
    ]


def run_findings(
    case: Case,
    sizes: Sizes,
    chains: Any,
    step: Callable[..., tuple[Any, object]],
    exact: Transition,
    start: np.ndarray,
) -> list[Finding]:
    """Laws of the compiled kernel's states along a run, against the exact ones.

    Args:
        case: the model.
        sizes: what must be seen.
        chains: at their start.
        step: (model, chains) -> (chains, info).
        exact: its transition.
        start: [M] law of the start.

    Returns:
        One finding for each of STEPS.
    """
    findings: list[Finding] = []
    for count in range(max(STEPS) + 1):
        if count:
            chains, _ = step(case.model, chains)
        if count in STEPS:
            now = chains.generation.trajectories
            findings.append(
                law_finding(
                    f"law after {count} steps",
                    cells_of(case, now.tokens, now.lengths),
                    start @ np.linalg.matrix_power(exact.matrix, count),
                    sizes.law_limit,
                )
            )
    return findings


def distances(matrix: np.ndarray, start: np.ndarray, target: np.ndarray) -> list[tuple[str, float]]:
    """Total variation between a finite run and the target.

    Args:
        matrix: [M, M].
        start: [M].
        target: [M].

    Returns:
        One for each of STEPS.
    """
    laws = [start @ np.linalg.matrix_power(matrix, count) for count in STEPS]
    return [
        (
            f"total variation to the target after {count} steps",
            float(np.abs(law - target).sum() / 2),
        )
        for count, law in zip(STEPS, laws, strict=True)
    ]


def _one_step_findings(
    case: Case,
    sizes: Sizes,
    exact: Transition,
    starts: np.ndarray,
    after: Any,
    verdicts: np.ndarray,
) -> list[Finding]:
    """One step from every state against its row of the matrix, and how often it is accepted."""
    num_states = len(case.sequences)
    now = after.generation.trajectories
    shares = np.bincount(starts, minlength=num_states) / starts.size
    probs = np.zeros((num_states, num_states + 1))
    probs[:, :-1] = shares[:, None] * exact.matrix
    return [
        law_finding(
            "one step from every state",
            starts * (num_states + 1) + cells_of(case, now.tokens, now.lengths),
            probs.ravel(),
            sizes.transition_limit,
        ),
        mean_finding(
            "acceptance rate", verdicts, float(shares @ exact.acceptance), sizes.law_limit
        ),
    ]


def starter(jit: Jit, design: Design) -> Callable[[Case, SequenceSpace, np.ndarray], Chains]:
    """Makes chains that start in given states, by `theory.mcmc.place_chains`.

    Args:
        jit: how it is compiled.
        design: of the moves.

    Returns:
        (case, its states, [B] which of them) -> B chains with ids 0..B-1.
    """

    def place(model: Any, tokens: jax.Array, lengths: jax.Array) -> Chains:
        return mcmc.place_chains(model, empty_prompts(lengths.shape[0]), tokens, lengths, design)

    compiled = jit(place)

    def start(case: Case, space: SequenceSpace, starts: np.ndarray) -> Chains:
        tokens = np.zeros((starts.size, case.model.horizon), np.int32)
        tokens[:, : space.tokens.shape[1]] = space.tokens[starts]
        lengths = jnp.asarray(space.records.lengths[starts], jnp.int32)
        return compiled(case.model, jnp.asarray(tokens), lengths)

    return start


def blockwise_check(name: str) -> Build:
    """The output law of the blockwise sampler.

    Args:
        name: of the kernel.

    Returns:
        Makes the check.
    """

    def build(jit: Jit) -> Check:
        cut_law = mcmc.uniform_cut()
        kernel = mcmc.blockwise(ALPHA, ALPHA, cut_law, BLOCK, 1)
        begin, step = jit(kernel.init), jit(kernel.step)

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            key = key_of(seed, name, case)
            stages = begin(key, case.model, empty_prompts(sizes.draws))
            for _ in range(mcmc.num_stages(case.model.horizon, BLOCK)):
                stages, _ = step(key, case.model, stages)
            now = stages.chains.generation.trajectories
            sequences, law = transition.blockwise_law(case.table, ALPHA, ALPHA, cut_law, BLOCK, 1)
            if sequences != case.sequences:
                raise ValueError("blockwise_law lists other sequences than the case")
            cells = cells_of(case, now.tokens, now.lengths)
            target = target_law(sequence_space(case.table, ALPHA), ALPHA)
            away = float(np.abs(law - target).sum() / 2)
            finding = law_finding("output law", cells, law, sizes.law_limit)
            return Found([finding], [("total variation to the target of the output", away)])

        return check

    return build


def tempering_check(name: str) -> Build:
    """Parallel tempering on its joint states.

    Args:
        name: of the kernel.

    Returns:
        Makes the check; models with too many joint states are passed over, which a row's absence and a note on stderr say.
    """

    def build(jit: Jit) -> Check:
        cut_law = mcmc.uniform_cut()
        kernels = [mcmc.parallel_tempering(ladder, cut_law) for ladder in LADDERS]
        programs = [(jit(kernel.init), jit(kernel.step)) for kernel in kernels]

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            size = len(case.sequences)
            small = [place for place, each in enumerate(LADDERS) if size ** len(each) <= MAX_STATES]
            if not small:
                return Found([])
            ladder, (begin, step) = LADDERS[small[0]], programs[small[0]]
            key = key_of(seed, name, case)
            _, matrix, invariant = transition.tempering_matrix(case.table, ladder, cut_law)
            start = np.ones(1)
            for alpha in ladder:
                start = np.kron(start, proposal_law(sequence_space(case.table, alpha)))
            rungs = begin(key, case.model, empty_prompts(sizes.draws))
            error = markov_chain.stationarity_error(matrix, invariant)
            findings = [exact_finding("stationarity error", error, 0.0, _ROUNDING)]
            for count in range(3):
                if count:
                    rungs, _ = step(key, case.model, rungs)
                    start = start @ matrix
                cells = [
                    cells_of(
                        case,
                        rung.generation.trajectories.tokens,
                        rung.generation.trajectories.lengths,
                    )
                    for rung in rungs
                ]
                joint = functools.reduce(lambda outer, inner: outer * size + inner, cells)
                joint = np.where(np.max(cells, axis=0) < size, joint, start.size)
                findings.append(
                    law_finding(
                        f"joint law of {len(ladder)} rungs after {count} steps",
                        joint,
                        start,
                        sizes.transition_limit,
                    )
                )
                # The rung that is wanted by itself: its law has few cells, and less escapes the test.
                findings.append(
                    law_finding(
                        f"law of the last rung after {count} steps",
                        cells[-1],
                        start.reshape(-1, size).sum(axis=0),
                        sizes.law_limit,
                    )
                )
            return Found(findings)

        return check

    return build
