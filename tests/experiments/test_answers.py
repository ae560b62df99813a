"""One canonical text for equal answers, and different texts for different ones."""

import importlib.metadata
import string
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.rollout_logs import math_verify_answers
from experiments.rollout_logs.answers import MAX_EXAMINED, canonical_answer
from theory.errors import InvalidInput

SAME = [
    ["1/2", "0.5", ".5", "0.50", "+1/2", r"\frac{1}{2}", r"\dfrac12", r"\tfrac{1}{2}", r"$\frac 12$", "2/4", r"\boxed{.5}", "-1/-2"],
    ["-7", "\u22127", r"\boxed{-7}", "$-7$", "$$-7$$", r"\(-7\)", r"\[-7\]", "-7.0", "-7.", r"\text{-7}", "  -7\n"],
    ["1234567", "1,234,567", "1{,}234{,}567", r"1\,234\,567", r"1,\!234,\!567", "1234567.00"],
    ["13", r"\text{13}", r"\mathrm{13}", "13", "013"],
    ["B", "(B)", "B)", "B.", "B:", r"\text{(B)}", r"\boxed{\text{B}}", "[B]"],
    ["28%", r"28\%", r"$28\%$"],
    ["(1, 2)", r"\left(1, 2\right)", r"$(1,  2)$"],
    [None, "", "  ", r"\boxed{}", "$$", r"\text{ }"],
]  # fmt: skip
DIFFERENT = [
    ("2/3", "2"), ("1/3", "0.333"), ("28%", "28"), ("28%", "0.28"), ("5 cm", "5"), ("1,2", "12"), ("1,23", "123"), ("12,34", "1234"),
    ("(1, 2)", "(2, 1)"), ("{1, 2}", "(1, 2)"), ("1/0", "0"), ("2^{-99}", "2^{-98}"), (r"\sqrt{17}", "4.1231"), ("x", "X"), ("-1", "1"),
    (r"1\frac{1}{2}", "11/2"), (r"\boxed{3}, \boxed{4}", "3"), ("$3$ and $4$", "3$ and $4"), ("1 2", "12"), ("a b", "ab"),
    (r"\leftarrow", "arrow"), ("0", None), ("none", None), ("0.1", "0.10000000000000001"),
]  # fmt: skip


@pytest.mark.parametrize("spellings", SAME, ids=lambda names: str(names[0]))
def test_spellings_of_one_answer_have_one_text(spellings: list[str | None]) -> None:
    assert {canonical_answer(text) for text in spellings} == {spellings[0]}


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_answers_stay_different(one: str, other: str | None) -> None:
    assert canonical_answer(one) is not None
    assert canonical_answer(one) != canonical_answer(other)


LATEX = st.lists(
    st.sampled_from([*string.digits[:4], *"abB+-/.,%${}()[] \n\u2212", "\\frac", "\\boxed{", "\\text{", "\\left(", "\\!", "\\,", "{1}{2}", "\\%", "{,}", "$$"]),
    max_size=12,
).map("".join)  # fmt: skip


@given(st.one_of(st.text(max_size=20), LATEX, LATEX.map(lambda text: f"\\boxed{{{text}}}")))
def test_a_canonical_text_is_its_own(text: str) -> None:
    once = canonical_answer(text)
    assert canonical_answer(once) == once
    assert once is None or once.strip() == once != ""


@given(st.fractions(max_denominator=10**6), st.integers(1, 50), st.booleans())
def test_a_fraction_is_exact_however_it_is_written(value: Fraction, k: int, plus: bool) -> None:
    numerator, denominator = value.numerator * k, value.denominator * k
    sign = "-" if value < 0 else "+" if plus else ""
    texts = [
        f"{numerator}/{denominator}",
        f"{sign}{abs(numerator)}/{denominator}",
        f"{sign}\\frac{{{abs(numerator)}}}{{{denominator}}}",
        f"$\\dfrac{{{numerator}}}{{{denominator}}}$",
    ]
    assert {canonical_answer(text) for text in texts} == {str(value)}


@given(st.integers(-(10**12), 10**12), st.integers(0, 9), st.integers(0, 3))
def test_a_finite_decimal_is_its_fraction(units: int, places: int, zeros: int) -> None:
    digits = f"{abs(units):0{places + 1}d}"
    whole, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
    sign = "-" if units < 0 else ""
    written = f"{sign}{whole}.{decimals}{'0' * zeros}"
    assert canonical_answer(written) == str(Fraction(units, 10**places))
    assert canonical_answer(f"{sign}{int(whole):,}.{decimals}") == str(Fraction(units, 10**places))


def test_a_long_answer_is_only_put_in_order_and_takes_no_time() -> None:
    nested = "\\boxed{" * 200_000 + "1" + "}" * 200_000
    assert canonical_answer(f" {nested}\n") == nested
    assert canonical_answer("9" * 1_000_000) == "9" * 1_000_000
    assert canonical_answer(" " * 1_000_000 + "1/2") == "1/2"
    assert canonical_answer("{" * MAX_EXAMINED) == "{" * MAX_EXAMINED


@pytest.mark.slow  # make test-slow installs math-verify
def test_math_verify_gives_classes_by_its_parsed_form() -> None:
    answer = math_verify_answers.math_verify_answer
    assert answer(r"\sqrt{8}") == answer(r"2\sqrt{2}") == "2*sqrt(2)"
    assert answer("x/2") == answer(r"\frac{2}{4}x")
    assert answer("2/3") == "2/3"
    assert answer(r"2^{-99}") != answer(r"2^{-98}")
    assert answer(r"\sqrt{17}") != answer("4.1231")
    assert answer("1/3") != answer("0.333")
    assert answer("") is None
    assert math_verify_answers.rules_version().startswith("math-verify 0.")


def test_without_math_verify_there_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", gone)
    math_verify_answers.math_verify_answer.cache_clear()
    with pytest.raises(InvalidInput, match=r"pip install 'rolloutlab\[math\]'"):
        math_verify_answers.math_verify_answer("never seen before")
