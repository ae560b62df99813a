"""What is said about the numbers is true of any model, and shown whole at any width."""

import math
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.table import Table

from experiments import power_summary, power_verdicts, tables
from experiments.model_argument import LoadedModel, load_model
from experiments.power_report import percent_text, report_tables, symbols, verdict_notes
from experiments.power_sentences import sentences
from experiments.power_summary import summary_rows
from experiments.power_tables import crossover_rows, ess_rows
from experiments.terminal import make_table, print_table, report_console
from models.tabular.catalogue import BUILTINS
from paper_figures.build import LAYOUTS
from paper_figures.columns import schema
from theory.exact.context_table import make_context_table, with_horizon

SAME_FIRST_TOKEN = "The first token has the same law under both."


def one_token(*probs: float) -> LoadedModel:
    """A model whose sequences have one token, where power and temperature are one law."""
    size = len(probs)
    table = make_context_table(np.log([probs]), np.zeros((1, size), np.int64), 0, (), 1)
    return LoadedModel("one", table, tuple(map(str, range(size))), False)


def built_in(name: str) -> LoadedModel:
    return load_model(f"builtin:{name}")


def found(
    models: Sequence[LoadedModel], alpha: float, lengths: Sequence[int] = (1, 2)
) -> dict[str, pa.Table]:
    """The tables that the report is made from; no crossovers, which take long."""
    scalars = [row for model in models for row in summary_rows(model, alpha)]
    curves = [row for model in models for row in ess_rows(model, alpha, lengths)]
    return {
        "table": tables.from_rows(power_summary.SCHEMA, scalars),
        "ess_against_length": tables.from_rows(schema(LAYOUTS["ess_against_length"]), curves),
        "crossover_lengths": crossovers(),
        "verdicts": verdicts(),
    }


def crossovers(*rows: tuple[str, str, float]) -> pa.Table:
    named = [
        {"model": "builtin:toy-d", "label": "sticky chain", "alpha": 2.0}
        | dict(zip(("first", "second", "length"), row, strict=True))
        for row in rows
    ]
    return tables.from_rows(schema(LAYOUTS["crossover_lengths"]), named)


def verdicts() -> pa.Table:
    shared = {"alpha": 2.0, "limit": 1e-6}
    rows = [
        ("builtin:toy-a", "an error", power_verdicts.ERROR, 1e-12, True),
        ("builtin:toy-b", "an error", power_verdicts.ERROR, 1e-3, False),
        ("builtin:toy-a", "a p-value", power_verdicts.P_VALUE, 0.25, True),
    ]
    names = ("model", "check", "kind", "value", "ok")
    named = [shared | dict(zip(names, row, strict=True)) for row in rows]
    return tables.from_rows(power_verdicts.SCHEMA, named)


def said(models: Sequence[LoadedModel], alpha: float, *lengths: int) -> list[str]:
    return sentences(found(models, alpha, lengths or (1, 2)), alpha)


def test_at_exponent_one_nothing_differs() -> None:
    first, second, third = said([built_in("toy-e"), built_in("toy-b")], 1.0)
    assert first.endswith(
        "temperature 1 are the same law: at exponent 1 both are the model itself."
    )
    assert second == SAME_FIRST_TOKEN
    assert "temperature 1 keeps an effective 100 % of the sample" in third


def test_of_one_token_power_is_temperature() -> None:
    first, second, third = said([one_token(0.6, 0.3, 0.1)], 2.0)
    assert "are the same law here" in first
    assert second == SAME_FIRST_TOKEN
    assert "100 %" in third and "horizon set to 1 token." in third


def test_an_exponent_near_one_is_not_called_one() -> None:
    first, _, _ = said([built_in("toy-b")], 1.0 + 1e-7)
    assert "p(y)^1.0000001 " in first
    assert "are different laws" in first


def test_indifference_is_no_preference() -> None:
    _, second, _ = said([built_in("toy-d")], 2.0)
    assert second.startswith(
        "On toy-d (sticky chain) power prefers a (0.734) and temperature is indifferent between a and b (0.5 each);"
    )


def test_one_favourite_is_no_reversal() -> None:
    _, second, _ = said([built_in("toy-b")], 2.0)
    assert second.startswith("On toy-b (plan or guess) power prefers GUESS (0.557) and temperature")
    _, second, _ = said([built_in("toy-b")], 8.0)
    assert second.startswith("They prefer different first tokens: on toy-b (plan or guess) power prefers PLAN")  # fmt: skip


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("name", BUILTINS)
def test_a_reversal_is_said_exactly_where_it_is_strict(name: str, alpha: float) -> None:
    model = built_in(name)
    model = model._replace(table=with_horizon(model.table, min(model.table.horizon, 6)))
    numbers = found([model], alpha, (1,))
    firsts = numbers["table"].filter(pc.field("quantity") == power_summary.FIRST_TOKEN)
    orders: list[tuple[str, float]] = []
    for law in ("power", "temperature"):
        row = [(r["value"], r["token"]) for r in firsts.to_pylist() if r["law"] == law]
        (best, token), (second, _) = sorted(row, reverse=True)[:2]
        orders.append((token, best - second))
    reversal = orders[0][0] != orders[1][0] and min(gap for _, gap in orders) > 1e-9
    second = sentences(numbers, alpha)[1]
    assert ("prefer different" in second) == reversal
    assert (second == SAME_FIRST_TOKEN) <= (not reversal)


def test_a_fixed_horizon_is_not_exceeded_and_always_has_a_length() -> None:
    _, _, third = said([built_in("toy-b")], 2.0, 4, 8)
    assert "with its horizon set to 2 tokens" in third
    _, _, third = said([built_in("random-tree")], 2.0, 1, 2, 4, 8)
    assert "with its horizon set to 5 tokens" in third
    _, _, third = said([built_in("toy-d")], 2.0, 1, 8)
    assert "with its horizon set to 8 tokens" in third


def test_sequential_monte_carlo_is_mentioned_only_where_it_overtakes() -> None:
    numbers = found([built_in("toy-d")], 2.0)
    numbers["crossover_lengths"] = crossovers(
        ("importance_base", "smc", 3.0), ("smc", "importance_temperature", 4.0)
    )
    third = sentences(numbers, 2.0)[2]
    assert third.startswith("Importance sampling from temperature 1/2 keeps")
    assert "sequential Monte Carlo" not in third
    numbers["crossover_lengths"] = crossovers(("importance_temperature", "smc", 262.0))
    third = sentences(numbers, 2.0)[2]
    assert third.endswith("with the same proposals overtakes it at 262 tokens.")


def test_crossovers_are_found_in_both_directions() -> None:
    found = {
        (row["first"], row["second"]): row["length"]
        for row in crossover_rows(built_in("toy-e"), 2.0, 4)
    }
    assert found["importance_temperature", "importance_base"] == 3.0
    assert found["smc", "importance_base"] == 2.0
    assert not {(second, first) for first, second in found} & found.keys()


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(1.0, "100 %"), (0.9999, ">99.9 %"), (0.123456, "12.3 %"), (1e-3, "0.1 %"), (1e-9, "10^-9.0")],
)
def test_nothing_short_of_the_whole_is_called_the_whole(fraction: float, shown: str) -> None:
    assert percent_text(math.log(fraction)) == shown


def test_the_worst_error_is_the_largest_and_the_worst_p_value_the_smallest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers = found([built_in("toy-b")], 2.0)
    *_, (title, table) = report_tables(numbers).items()
    print_table(report_console(), title, table)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "an error 2 of 2 0.001 <= 1e-06 FAILED" in lines
    assert "a p-value 1 of 2 p = 0.25 >= 1e-06 ok" in lines
    covered, failed = verdict_notes(verdicts())
    assert str(power_verdicts.MAX_CHECKED) in covered
    assert failed == "FAILED: builtin:toy-b: an error"


LONG_NAME = "a_model_[bold]_with_a_name_of_some_forty_letters"


@pytest.fixture(scope="module")
def shown() -> dict[str, Table]:
    models = [built_in(name) for name in ("toy-a-normalised", "toy-c-long", "random-endless")]
    return report_tables(found([*models, one_token(0.5, 0.5)._replace(name=LONG_NAME)], 2.0))


@pytest.mark.parametrize("columns", [None, 40, 80, 110, 200])
def test_no_number_and_no_name_is_cut_at_any_width(
    columns: int | None,
    shown: dict[str, Table],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(columns))
    console = report_console()
    for title, table in shown.items():
        print_table(console, title, table)
    out = capsys.readouterr().out
    assert "…" not in out
    for number in ("0.880..0.947", "41.5", "-34.64", "32.41", "0 = 1 0.500", "a = b 0.488"):
        assert f" {number} " in out
    lines = out.splitlines()
    assert LONG_NAME in "".join(re.split(r" {2,}", line)[0].strip() for line in lines)
    if columns is None or columns >= 80:
        tables_of_models = len(shown) - 1
        assert sum(line.startswith("toy-a-normalised ") for line in lines) == tables_of_models
        assert max(map(len, [*lines, symbols(2.0)])) <= (columns or 200)


def test_a_table_that_no_column_can_give_way_is_wider_than_the_console(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table = make_table("name", *(f"column {i}" for i in range(5)))
    table.add_row("x", *(f"{i}.123456789" for i in range(5)))
    print_table(report_console(), "title", table)
    out = capsys.readouterr().out
    assert all(f"{i}.123456789" in out and f"column {i}" in out for i in range(5))
