"""A kernel of the user's own: does it leave the power law as it is?

`module:function` names a function(alpha) -> `theory.protocols.Kernel` whose state is `theory.mcmc.Chains`. The kernel's own init (and a few
of its steps) provide a state for every sequence, with all that the kernel records of it; of these, states are picked so that their
sequences are exact draws of p(y)^alpha / Z. After any number of steps they must still be. What the start and its search never meet is judged
in `reach`. The flows of one step are compared with their reverse, which is reported and not judged: a kernel that is not reversible may be right.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
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
    law_probs,
)
from experiments.validation.findings import Found, law_finding
from experiments.validation.markov import empty_prompts
from experiments.validation.reach import follows, from_reached, reach_finding
from theory.errors import InvalidInput
from theory.exact.laws import power_law
from theory.generation import take
from theory.goodness_of_fit import symmetry_p_value
from theory.mcmc import Chains

STEPS = (1, 2, 5)

# Whatever a user's code does that is no interrupt: an exit of its own is no verdict of ours.
_FAILURES = (Exception, SystemExit)

# Steps in which the kernel may reach the sequences that its start has missed.
_SEARCH = 20


def load_kernel(name: str) -> Callable[[float], Any]:
    """Import what `module:function` names; the current folder is searched first.

    Args:
        name: such as `my_kernels:lazy`.

    Returns:
        The function.

    Raises:
        InvalidInput: there is no such module or function, or it cannot be imported.
    """
    module_name, _, function_name = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except _FAILURES as error:
        raise InvalidInput(
            f"--kernel {name}: module '{module_name}' cannot be imported ({_told(error)})"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InvalidInput(
            f"--kernel {name}: module '{module_name}' has no function '{function_name}': "
            f"{_mend(module, function_name)}"
        )
    return function


def own_check(name: str) -> Build:
    """The checks of a user's kernel.

    Args:
        name: `module:function`.

    Returns:
        Makes the check.
    """
    function = load_kernel(name)

    def build(jit: Jit) -> Check:
        try:
            kernel = function(ALPHA)
            begin, step = jit(kernel.init), jit(kernel.step)
        except _FAILURES as error:
            raise InvalidInput(
                f"--kernel {name}: function({ALPHA:g}) gives no kernel with init and step ({_told(error)})"
            ) from error

        def check(case: Case, sizes: Sizes, seed: int) -> Found:
            try:
                return _check(name, begin, step, case, sizes, seed)
            except InvalidInput:
                raise
            except _FAILURES as error:
                raise InvalidInput(
                    f"--kernel {name}: fails on case '{case.name}' ({_told(error)}); its init takes (key, model, "
                    "prompts) and its step (key, model, chains)"
                ) from error

        return check

    return build


def _check(name: str, begin: Any, step: Any, case: Case, sizes: Sizes, seed: int) -> Found:
    key = key_of(seed, name, case)
    chains = begin(key, case.model, empty_prompts(sizes.draws))
    if not isinstance(chains, Chains):
        raise InvalidInput(
            f"--kernel {name}: its state is a {type(chains).__name__}, must be theory.mcmc.Chains"
        )
    target = law_probs(case, power_law(case.layers, ALPHA).law)
    search = _search(case, chains, step, key)
    parts = search.states
    places = np.array(sorted(parts), int)
    settled = search.has_moved and follows(search.ends, target, places)
    findings = [reach_finding(target, places, sizes.draws, settled, sizes.law_limit)]
    if not target[places].sum() > 0:
        return Found(findings)
    law = target[places] / target[places].sum()
    generator = np.random.default_rng(seed)
    starts = generator.choice(places.size, sizes.draws, p=law)
    chains = _gather(case, [parts[place] for place in places.tolist()], starts)
    reports: list[tuple[str, float]] = []
    run_key = jax.random.fold_in(key, 1)
    for count in range(1, max(STEPS) + 1):
        chains, _ = step(run_key, case.model, chains)
        now = chains.generation.trajectories
        cells = cells_of(case, now.tokens, now.lengths)
        if count == 1:
            reports = _flow_reports(places[starts], cells, target.size)
        if count in STEPS:
            what = f"invariance of the power law, after {count} steps"
            finding = law_finding(what, cells, target, sizes.law_limit)
            findings.append(from_reached(finding, cells, target, places))
    return Found(findings, reports)


class _Search(NamedTuple):
    """What the kernel's own chains meet.

    Attributes:
        states: one for every sequence that they reach.
        ends: [B] where they are at the end.
        has_moved: whether any of them did.
    """

    states: dict[int, Chains]
    ends: np.ndarray
    has_moved: bool


def _search(case: Case, chains: Chains, step: Any, key: jax.Array) -> _Search:
    """Take the first steps, until every sequence is met."""
    found: dict[int, Chains] = {}
    cells, has_moved = np.zeros(0, int), False
    for count in range(_SEARCH + 1):
        before = cells
        if count:
            chains, _ = step(key, case.model, chains)
        now = chains.generation.trajectories
        cells = cells_of(case, now.tokens, now.lengths)
        has_moved |= count > 0 and bool(np.any(cells != before))
        places, rows = np.unique(cells, return_index=True)
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            if place < len(case.sequences) and place not in found:
                found[place] = _rows(case, chains, np.array([row]))
        if len(found) == len(case.sequences):
            break
    return _Search(found, cells, has_moved)


def _rows(case: Case, chains: Chains, rows: np.ndarray) -> Chains:
    where = jnp.asarray(rows)
    return Chains(
        take(case.model, chains.generation, where),
        chains.entropies[where],
        chains.log_rewards[where],
        jnp.arange(rows.size, dtype=jnp.int32),
        chains.iteration,
    )


def _gather(case: Case, states: list[Chains], starts: np.ndarray) -> Chains:
    """Chains with ids of their own that start in the given states."""

    def join(*leaves: Any) -> Any:
        return jnp.concatenate(leaves) if jnp.ndim(leaves[0]) else leaves[0]

    joined = jax.tree.map(join, *states)
    ledger = states[0].generation.ledger  # what was spent belongs to no row
    return _rows(
        case, joined._replace(generation=joined.generation._replace(ledger=ledger)), starts
    )


def _flow_reports(before: np.ndarray, after: np.ndarray, size: int) -> list[tuple[str, float]]:
    """How far the flows of one step are from their reverse, and the p-value of reversibility."""
    inside = after < size
    flows = np.bincount(before[inside] * size + after[inside], minlength=size * size)
    flows = flows.reshape(size, size)
    asymmetry = float(np.abs(flows - flows.T).sum() / 2 / max(1, before.size))
    return [
        ("one step: total variation of flows and reversed flows", asymmetry),
        ("one step: p-value of reversibility", symmetry_p_value(flows)),
    ]


def _mend(module: ModuleType, function_name: str) -> str:
    """The closest function that the module itself defines, or all of them."""
    own = [
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]
    close = difflib.get_close_matches(function_name, own, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"it has {', '.join(own)}" if own else "define a function(alpha) -> Kernel there"


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
