import math

import pytest

from models.tabular.catalogue import BUILTINS, builtin
from tests.models.tabular.naive import law_after, sequences
from theory.errors import InvalidInput
from theory.exact.context_table import with_horizon


@pytest.mark.parametrize("name", BUILTINS)
def test_every_model_is_a_law_and_is_described(name: str) -> None:
    entry = builtin(name)
    table = entry.make()
    short = with_horizon(table, min(table.horizon, 5))
    assert sum(map(math.exp, sequences(short).values())) == pytest.approx(1, rel=1e-12)
    assert len(entry.labels) == len(set(entry.labels)) == table.vocab_size
    assert entry.description and "\n" not in entry.description
    assert all(entry.labels[token] == "eos" for token in table.eos)


@pytest.mark.parametrize("name", BUILTINS)
def test_a_free_horizon_is_free(name: str) -> None:
    """The context after the last token has a law exactly where the catalogue says so."""
    entry = builtin(name)
    table = entry.make()
    likely: tuple[int, ...] = ()
    for _ in range(table.horizon):
        law = law_after(table, likely)
        going_on = [token for token in range(table.vocab_size) if token not in table.eos]
        likely = (*likely, max(going_on, key=lambda token: law[token]))
    assert any(map(math.isfinite, law_after(table, likely))) == entry.horizon_is_free
    assert entry.horizon_is_free == (entry.kind == "markov")


def test_building_twice_gives_the_same_table() -> None:
    for entry in BUILTINS.values():
        first, second = entry.make(), entry.make()
        assert (first.log_probs == second.log_probs).all()
        assert (first.next_context == second.next_context).all()


def test_an_unknown_name_is_answered_with_those_spelled_alike() -> None:
    with pytest.raises(InvalidInput, match="no built-in model 'toy-bb', there is toy-b,"):
        builtin("toy-bb")
    with pytest.raises(InvalidInput, match=f"there is {', '.join(sorted(BUILTINS))}"):
        builtin("qqqqqqqqqq")
