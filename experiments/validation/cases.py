"""The small models that kernels are validated on, and what is exact about them."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from experiments.model_argument import load_model
from experiments.validation.findings import Found
from models.tabular.constructors import markov_table, tree_table
from models.tabular.context_model import ContextModel
from models.tabular.random_tables import random_tree_table
from models.tabular.toys import toy_e, toy_f
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable, make_context_table
from theory.exact.enumeration import enumerate_prefixes, enumerate_sequences
from theory.exact.laws import Law, base_law
from theory.exact.layers import Layers, num_sequences, unroll

ALPHA = 2.0
"""Exponent of every target here."""

# Populations of two particles are enumerated: some M^2 / 2 of them.
MAX_SEQUENCES = 400

# What the number of contexts of a compiled model is a multiple of.
_CONTEXTS = 16


class Case(NamedTuple):
    """A model with its exact twin.

    Attributes:
        name: of the rows.
        table: its conditionals in float64, one context a prefix.
        model: the same in float32, as the kernels see it.
        layers: of the dynamic programs.
        sequences: all of them, in lexicographic order.
    """

    name: str
    table: ContextTable
    model: ContextModel
    layers: Layers
    sequences: list[tuple[int, ...]]


class Sizes(NamedTuple):
    """How much is drawn, and what must be seen.

    Attributes:
        draws: independent draws or chains behind a law.
        populations: independent populations of each size.
        law_limit: total variation of a law that must be seen.
        transition_limit: the same for pairs of states one step apart, of which there are many.
        mean_limit: bias of a mean that must be seen; as a share of its truth.
        variance_limit: bias of a variance that must be seen, as a share of it.
        particles: sizes of the populations whose Var(Z_hat) is compared.
    """

    draws: int
    populations: int
    law_limit: float
    transition_limit: float
    mean_limit: float
    variance_limit: float
    particles: tuple[int, ...]


# How a check compiles what it runs: `jax.jit`, or that with other options.
Jit = Callable[..., Callable[..., Any]]

# (case, sizes, seed) -> what was found.
Check = Callable[[Case, Sizes, int], Found]

# Looks the kernel up and makes its check; the programs that this compiles serve all cases of one shape.
Build = Callable[[Jit], Check]


def make_case(name: str, table: ContextTable) -> Case:
    """Prepare a model.

    Args:
        name: of the rows.
        table: its conditionals.

    Returns:
        The case.

    Raises:
        InvalidInput: more than MAX_SEQUENCES sequences, or a single one.
    """
    count = num_sequences(unroll(table))
    if not 1 < count <= MAX_SEQUENCES:
        raise InvalidInput(
            f"case '{name}': {count:g} sequences, must be in 2..{MAX_SEQUENCES}: exact finite-run laws enumerate them; "
            "give a model with a lower max_length or fewer tokens"
        )
    tree = _as_tree(table)
    layers = unroll(tree)
    sequences = enumerate_sequences((base_law(layers),)).sequences
    return Case(name, tree, ContextModel.from_table(_padded(tree)), layers, sequences)


def builtin_cases() -> list[Case]:
    """The cases that ship, all of one shape, so that a program compiled for one serves all of them.

    Returns:
        Toy E (eos comes early); toy F (alternates); a random tree (no two contexts alike); toy D cut to four tokens, with an eos that is
        impossible (fixed length); toy B with its leaves renamed and a certain eos after them (impossible and certain tokens).
    """
    tree = random_tree_table(np.random.default_rng(5), 3, (2,), 4, concentration=1.0)
    fixed = markov_table(
        (0.5, 0.5, 0.0), ((0.9, 0.1, 0.0), (0.4, 0.6, 0.0), (0.0, 0.0, 1.0)), eos=(2,), horizon=4
    )
    plan = {(): (0.4, 0.6, 0.0), (0,): (0.95, 0.05, 0.0), (1,): (0.55, 0.45, 0.0)}
    leaves = {(first, second): (0.0, 0.0, 1.0) for first in (0, 1) for second in (0, 1)}
    guess = tree_table(plan | leaves, vocab_size=3, eos=(2,), max_length=4)
    cases = [
        ("toy-e", toy_e()),
        ("toy-f", toy_f()),
        ("random-tree", tree),
        ("toy-d", fixed),
        ("toy-b", guess),
    ]
    return [make_case(name, table) for name, table in cases]


def file_case(path: str) -> Case:
    """A model of the user's own; its exact laws are computed from its conditionals.

    Args:
        path: a JSON model file or `builtin:NAME`.

    Returns:
        The case.

    Raises:
        InvalidInput: it cannot be read, or has too many sequences.
    """
    return make_case(path, load_model(path).table)


def law_probs(case: Case, law: Law) -> np.ndarray:
    """[M] probabilities of the case's sequences.

    Args:
        case: whose order it is.
        law: over the case's layers.

    Returns:
        [M].
    """
    listed = enumerate_sequences((law,))
    probs = dict(zip(listed.sequences, np.exp(listed.log_probs[0]).tolist(), strict=True))
    return np.array([probs.get(sequence, 0.0) for sequence in case.sequences])


def cells_of(case: Case, tokens: jax.Array, lengths: jax.Array) -> np.ndarray:
    """The place of each row among the sequences; M for what is none of them.

    Args:
        case: whose sequences.
        tokens: [B, T] right-padded.
        lengths: [B].

    Returns:
        [B].
    """
    places = {sequence: place for place, sequence in enumerate(case.sequences)}
    num_tokens = np.asarray(lengths)[:, None]
    inside = np.arange(tokens.shape[1])[None] < num_tokens
    rows = np.concatenate([np.where(inside, tokens, 0), num_tokens], axis=1)
    different, back = np.unique(rows, axis=0, return_inverse=True)
    found = [places.get(tuple(row[: row[-1]]), len(places)) for row in different.tolist()]
    return np.array(found)[back.ravel()]


def key_of(seed: int, kernel: str, case: Case) -> jax.Array:
    """The key of a kernel on a case: the same whatever else is run.

    Args:
        seed: of the run.
        kernel: its name.
        case: the model.

    Returns:
        A key.
    """
    return jax.random.fold_in(
        jax.random.key(seed), zlib.crc32(f"{kernel}/{case.name}".encode()) >> 1
    )


def _as_tree(table: ContextTable) -> ContextTable:
    """The same law with one context a prefix: models of equal sizes then share their shapes, and with them compiled programs."""
    layers = unroll(table)
    prefixes = enumerate_prefixes(layers, MAX_SEQUENCES)
    place = {prefix.tokens: number for number, prefix in enumerate(prefixes)}
    rows = [layers[prefix.depth].log_probs[prefix.row] for prefix in prefixes]
    following = [
        [place.get((*prefix.tokens, token), 0) for token in range(table.vocab_size)]
        for prefix in prefixes
    ]
    return make_context_table(
        np.array(rows), np.array(following, np.int64), 0, table.eos, table.horizon
    )


def _padded(table: ContextTable) -> ContextTable:
    """With contexts that nothing leads to, up to a multiple of _CONTEXTS."""
    num_contexts, vocab_size = table.log_probs.shape
    missing = -num_contexts % _CONTEXTS
    uniform = np.full((missing, vocab_size), -np.log(vocab_size))
    nowhere = np.zeros((missing, vocab_size), np.int64)
    return table._replace(
        log_probs=np.concatenate([table.log_probs, uniform]),
        next_context=np.concatenate([table.next_context, nowhere]),
    )
