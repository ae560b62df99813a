"""A mistake in a finished kernel turns its own rows red, and no others."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from experiments.progress import track
from experiments.validate import SIZES, chosen, compiler, preset_cases, validate
from experiments.validation.cases import Case, builtin_cases
from experiments.validation.findings import BIASED, OK, Row
from experiments.validation.registry import KERNELS, QUICK
from tests.experiments.validation import damages as in_place
from tests.planted_bugs import decoding as wrong_tokens
from tests.planted_bugs import mcmc as wrong_moves
from tests.planted_bugs import resampling as wrong_schemes
from theory import decoding, resampling
from theory.decoding.min_p import MinP
from theory.decoding.top_k import TopK
from theory.decoding.top_p import TopP
from theory.mcmc import density, suffix
from theory.smc import adapted, step


class Damage(NamedTuple):
    """Where a mistake goes, which kernels it spoils and which it leaves alone."""

    place: Any
    name: str
    bug: Callable[..., Any]
    spoiled: tuple[str, ...]
    spared: tuple[str, ...]
    quantity: str


def rule(bug: Callable[..., Any], field: str) -> Callable[..., Any]:
    """A rule's __call__ from a wrong function of logits and its parameter."""
    return lambda self, logits, counts: bug(logits, getattr(self, field))


DAMAGES = {
    "top-p drops the crossing token": Damage(
        TopP,
        "__call__",
        rule(wrong_tokens.top_p_drops_the_crossing_token, "mass"),
        ("top-p",),
        ("top-k",),
        "law, largest error",
    ),
    "top-k keeps ties": Damage(
        TopK,
        "__call__",
        rule(wrong_tokens.top_k_keeps_ties, "num_tokens"),
        ("top-k", "generate-top-k"),
        ("top-p",),
        "law, largest error",
    ),
    "min-p writes 0": Damage(
        MinP,
        "__call__",
        rule(wrong_tokens.min_p_writes_zero, "fraction"),
        ("min-p",),
        ("top-p",),
        "tokens drawn after every prefix",
    ),
    "tokens are drawn from the law before the rules": Damage(
        decoding,
        "sample_tokens",
        wrong_tokens.draws_from_the_law_before_the_rules,
        ("temperature",),
        ("generate-temperature",),
        "tokens drawn after every prefix",
    ),
    "log q is recorded before the rules": Damage(
        decoding,
        "sample_tokens",
        wrong_tokens.reports_the_law_before_the_rules,
        ("temperature",),
        ("generate-temperature",),
        "recorded log q, largest error",
    ),
    "the neighbour of the right ancestor": Damage(
        resampling,
        "systematic",
        in_place.of_uniforms(wrong_schemes.ancestor_off_by_one),
        ("systematic",),
        ("stratified",),
        "expected weight of offspring, worst of 4",
    ),
    "slot 0 is not kept": Damage(
        resampling,
        "conditional_multinomial",
        resampling.multinomial,
        ("conditional-multinomial", "conditional-smc"),
        ("conditional-systematic",),
        "law of the ancestors",
    ),
    "the strata begin with the reference": Damage(
        resampling,
        "conditional_stratified",
        in_place.particles_not_rotated,
        ("conditional-stratified",),
        ("conditional-systematic",),
        "law of the ancestors",
    ),
    "survivors of thinning are not made heavier": Damage(
        resampling,
        "chopthin",
        in_place.survivors_not_made_heavier,
        ("chopthin",),
        ("killing",),
        "expected weight of offspring, worst of 4",
    ),
    "the ratio of the cuts is left out": Damage(
        density,
        "log_ratio",
        wrong_moves.length_ratio_missing,
        ("suffix-mh",),
        ("independence-mh",),
        "detailed-balance error",
    ),
    "multiple-try weights without the cut": Damage(
        density,
        "log_move_weight",
        wrong_moves.move_weight_without_cut,
        ("multiple-try-mh",),
        ("independence-mh",),
        "stationarity error",
    ),
    "every proposal is accepted": Damage(
        suffix,
        "log_uniforms",
        in_place.always_below,
        ("suffix-mh",),
        ("multiple-try-mh",),
        "one step from every state",
    ),
    "swaps with the wrong sign": Damage(
        density,
        "swap_log_ratio",
        wrong_moves.swap_with_the_wrong_sign,
        ("parallel-tempering",),
        ("independence-mh",),
        "stationarity error",
    ),
    "whole prefixes are weighed again": Damage(
        step,
        "weigh",
        in_place.whole_prefix_weighed_again,
        ("smc",),
        ("importance-temperature",),
        "Z_hat / Z, N = 2",
    ),
    "evidence is lost at resampling": Damage(
        step,
        "resample",
        in_place.evidence_lost_at_resampling,
        ("smc",),
        ("smc-never",),
        "Z_hat / Z, N = 2",
    ),
    "the adapted filter forgets the normaliser": Damage(
        adapted,
        "log_normaliser",
        in_place.normaliser_forgotten,
        ("adapted-smc",),
        ("smc",),
        "Var(Z_hat / Z), N = 2",
    ),
}


@pytest.fixture(scope="module")
def toy() -> Case:
    return next(case for case in builtin_cases() if case.name == "toy-e")


def rows_of(toy: Case, names: tuple[str, ...]) -> list[Row]:
    entries = {name: KERNELS[name] for name in names}
    return validate(entries, [toy], SIZES["quick"], 0, compiler("quick"), track)[0]


@pytest.mark.slow
@pytest.mark.parametrize("what", DAMAGES)
def test_a_damage_is_seen_where_it_is(
    what: str, toy: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = DAMAGES[what]
    monkeypatch.setattr(damage.place, damage.name, damage.bug)
    rows = rows_of(toy, damage.spoiled + damage.spared)
    red = {row.kernel for row in rows if row.verdict == BIASED}
    assert red == set(damage.spoiled)
    assert all(row.verdict == OK for row in rows if row.kernel in damage.spared)
    found = {row.quantity: row.verdict for row in rows if row.kernel == damage.spoiled[0]}
    assert found[damage.quantity] == BIASED


@pytest.mark.slow
def test_without_damage_all_of_them_are_ok(toy: Case) -> None:
    names = {name for damage in DAMAGES.values() for name in damage.spoiled}
    assert {row.verdict for row in rows_of(toy, tuple(sorted(names)))} == {OK}


# What the quick preset runs that depends on the damaged function: all of it, and nothing else.
DEPENDENTS = {
    "the ratio of the cuts is left out": {"suffix-mh"},
    "the neighbour of the right ancestor": {"systematic", "smc-ess-adaptive"},
    "whole prefixes are weighed again": {
        "smc",
        "smc-ess-adaptive",
        "adapted-smc",
        "bridged-smc",
        "twisted-smc",
        "conditional-smc",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("what", DEPENDENTS)
def test_in_the_quick_preset_a_damage_turns_red_what_depends_on_it(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = DAMAGES[what]
    monkeypatch.setattr(damage.place, damage.name, damage.bug)
    entries, cases = chosen((), "quick"), preset_cases("quick")
    rows, _, _ = validate(entries, cases, SIZES["quick"], 0, compiler("quick"), track)
    assert {row.kernel for row in rows} == set(QUICK)
    assert {row.kernel for row in rows if row.verdict == BIASED} == DEPENDENTS[what]
    assert {row.verdict for row in rows if row.kernel not in DEPENDENTS[what]} == {OK}
