"""The models that ship with the laboratory, by name."""

import difflib
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from models.tabular import toys
from models.tabular.constructors import geometric_table
from models.tabular.hidden_markov import (
    HiddenMarkovChain,
    hidden_markov_table,
    make_hidden_markov_chain,
)
from models.tabular.random_tables import random_markov_table, random_tree_table
from models.tabular.sharp_path import sharp_against_blurred_table
from theory.errors import InvalidInput
from theory.exact.context_table import ContextTable

# Of the models called random: always the same draw.
SEED = 2026


class Builtin(NamedTuple):
    """A model with a name.

    Attributes:
        description: one line.
        make: builds its table.
        labels: [V] how its tokens are shown.
        kind: "tree" if a context is a whole prefix; "markov" if contexts are a finite memory that never runs out.
        horizon_is_free: whether the horizon may be changed.
    """

    description: str
    make: Callable[[], ContextTable]
    labels: tuple[str, ...]
    kind: Literal["tree", "markov"]
    horizon_is_free: bool


def builtin(name: str) -> Builtin:
    """Look a model up.

    Args:
        name: a key of BUILTINS.

    Returns:
        The model.

    Raises:
        InvalidInput: there is no such model; the message names those that are spelled alike.
    """
    if name not in BUILTINS:
        close = difflib.get_close_matches(name, BUILTINS, n=3) or sorted(BUILTINS)
        raise InvalidInput(f"no built-in model {name!a}, there is {', '.join(close)}")
    return BUILTINS[name]


def hidden_markov_example() -> HiddenMarkovChain:
    """Two sticky moods that prefer different tokens; which one it is shows only in the history.

    Tokens x, y, eos; at most six. The calm mood (.9 to stay) emits x with .7, the other (.8 to stay) y with .6.
    """
    return make_hidden_markov_chain(
        initial=np.array([0.6, 0.4]),
        transition=np.array([[0.9, 0.1], [0.2, 0.8]]),
        emission=np.array([[0.7, 0.2, 0.1], [0.15, 0.6, 0.25]]),
        eos=(2,),
        horizon=6,
    )


def _geometric() -> ContextTable:
    return geometric_table((0.5, 0.2, 0.1, 0.2), eos=(3,), horizon=64)


def _random_markov() -> ContextTable:
    return random_markov_table(np.random.default_rng(SEED), 5, (4,), 12, concentration=0.5)


def _random_endless() -> ContextTable:
    return random_markov_table(np.random.default_rng(SEED), 5, (), 12, concentration=0.5)


def _random_tree() -> ContextTable:
    return random_tree_table(np.random.default_rng(SEED), 4, (3,), 5, concentration=0.5)


def _hidden_markov() -> ContextTable:
    return hidden_markov_table(hidden_markov_example())


def _sharp_path() -> ContextTable:
    return sharp_against_blurred_table(0.4, vocab_size=3, length=6)


def _tree(description: str, make: Callable[[], ContextTable], labels: tuple[str, ...]) -> Builtin:
    return Builtin(description, make, labels, "tree", False)


def _markov(description: str, make: Callable[[], ContextTable], labels: tuple[str, ...]) -> Builtin:
    return Builtin(description, make, labels, "markov", True)


AB = ("a", "b")
AB_EOS = ("a", "b", "eos")
PLAN = ("PLAN", "GUESS", "right", "wrong")

BUILTINS: dict[str, Builtin] = {
    "toy-a": _tree("the two-token example of Karan and Du, masses rescaled to 1", toys.toy_a, AB),
    "toy-a-normalised": _tree("the same with masses 0, .45, .275, .275", toys.toy_a_normalised, AB),
    "toy-b": _tree("PLAN is rarer than GUESS and more often right", toys.toy_b, PLAN),
    "toy-c-long": _markov("geometric length, stop probability .1", toys.toy_c_long, AB_EOS),
    "toy-c-skewed": _markov(
        "geometric length, stop probability .2, uneven tokens", toys.toy_c_skewed, AB_EOS
    ),
    "toy-c-short": _markov("geometric length, stop probability .5", toys.toy_c_short, AB_EOS),
    "toy-d": _markov("two-state Markov chain of six tokens, no eos", toys.toy_d, AB),
    "toy-e": _markov("Markov chain in which eos comes early", toys.toy_e, AB_EOS),
    "toy-f": _markov("Markov chain that alternates", toys.toy_f, AB_EOS),
    "sharp-path": _markov(
        "one sharp path against many blurred ones: the first-token ranking reverses",
        _sharp_path,
        ("sharp", "blurred", "other"),
    ),
    "geometric": _markov(
        "independent tokens until eos, expected length 5", _geometric, ("a", "b", "c", "eos")
    ),
    "hidden-markov": _tree(
        "two hidden moods emit the tokens; no window of tokens tells which",
        _hidden_markov,
        ("x", "y", "eos"),
    ),
    "random-markov": _markov(
        "a random Markov chain of five tokens", _random_markov, ("a", "b", "c", "d", "eos")
    ),
    "random-endless": _markov(
        "a random Markov chain of five tokens without eos",
        _random_endless,
        ("a", "b", "c", "d", "e"),
    ),
    "random-tree": _tree(
        "a random tree of four tokens, five deep", _random_tree, ("a", "b", "c", "eos")
    ),
}
