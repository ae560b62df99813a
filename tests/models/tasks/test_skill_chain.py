"""The skill chain: its law against sums over what is known, and its difficulty as designed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.tasks.registry import task
from models.tasks.skill_chain import (
    right_completions,
    skill_chain,
    success_probability,
)
from models.tasks.skill_facts import Facts, SkillChainDesign, make_facts, pass_at_1
from models.tasks.task import ABSTAIN, Sequences
from models.tasks.text import parse, parse_prompts, render
from tests.stat_asserts import assert_counts, assert_rejected

DESIGN = SkillChainDesign(seed=3, lengths=(1, 2, 3), num_skills=6, share_mastered=0.0, mean=0.5)
SMALL = skill_chain(DESIGN)
FACTS = make_facts(DESIGN)


def outcomes(
    facts: Facts, first: int, skills: list[int], *, mends: bool = False
) -> dict[tuple[int, ...], float]:
    """The law of the results by what is known; a chain that mends goes on from the right value after an error."""
    law: dict[tuple[int, ...], float] = {}
    for pattern in itertools.product((True, False), repeat=len(skills)):
        value, probability, written = first, 1.0, list[int]()
        for skill, known in zip(skills, pattern, strict=True):
            q = facts.q[skill, value]
            probability *= q if known else 1 - q
            right, wrong = facts.results[skill, value], facts.misconceptions[skill, value]
            written.append(int(right if known else wrong))
            value = int(right) if mends else written[-1]
        law[tuple(written)] = law.get(tuple(written), 0.0) + probability
    return law


def read(text: str) -> tuple[int, list[int]]:
    """First digit and skills of a prompt."""
    words = text.split()
    return int(words[0]), [int(word[1:]) for word in words[1:-1]]


def test_completions_verdicts_and_pass_at_1_are_those_of_the_facts() -> None:
    prompts = SMALL.prompts("train", 120, seed=0)
    right = right_completions(FACTS, prompts)
    probability = success_probability(FACTS, prompts)
    for row, (prompt, completion) in enumerate(
        zip(render(SMALL, prompts), render(SMALL, right), strict=True)
    ):
        first, skills = read(prompt)
        value, digits = first, list[int]()
        for skill in skills:
            value = int(FACTS.results[skill, value])
            digits.append(value)
        assert completion == " ".join(map(str, digits)) + " <eos>"
        expected = outcomes(FACTS, first, skills)[tuple(digits)]
        assert probability[row] == pytest.approx(expected, rel=1e-12)
    assert SMALL.verify(prompts, right).all()
    # One digit off, wherever it stands.
    for place in range(3):
        tokens = np.asarray(right.tokens).copy()
        there = place < np.asarray(right.lengths) - 1
        tokens[:, place] = np.where(there, 1 + tokens[:, place] % 10, tokens[:, place])
        wrong = Sequences(jnp.asarray(tokens), right.lengths)
        np.testing.assert_array_equal(SMALL.verify(prompts, wrong), ~there)
        for length in range(4):
            prefixes = Sequences(wrong.tokens, jnp.minimum(wrong.lengths, length))
            correct = ~there | (length <= place)
            np.testing.assert_array_equal(SMALL.correct_so_far(prompts, prefixes), correct)


def test_answers_are_all_results_at_once() -> None:
    prompts = parse_prompts(SMALL, ["4 s1 s2 s3 =", "4 s1 s2 =", "4 s1 s2 =", "4 s1 s2 ="])
    texts = ["0 1 2 <eos>", "3 4 <eos>", "3 4 5 <eos>", "3 <eos>"]
    rows = [parse(SMALL, text) for text in texts]
    tokens = jnp.array([row + [0] * (4 - len(row)) for row in rows])
    completions = Sequences(tokens, jnp.array([len(row) for row in rows]))
    np.testing.assert_array_equal(SMALL.answers(prompts, completions), [12, 34, ABSTAIN, ABSTAIN])


@pytest.mark.parametrize("length", [1, 2, 3])
def test_pass_at_1_is_the_mean_over_all_prompts(length: int) -> None:
    total = 0.0
    for first, *skills in itertools.product(range(10), *[range(6)] * length):
        value, probability = first, 1.0
        for skill in skills:
            probability *= FACTS.q[skill, value]
            value = int(FACTS.results[skill, value])
        total += probability
    assert pass_at_1(FACTS, length) == pytest.approx(total / (10 * 6**length), rel=1e-12)


def test_lengths_take_turns_and_short_prompts_are_no_beginnings_of_long_ones() -> None:
    prompts = task("skill-chain").prompts("test", 300, seed=1)
    np.testing.assert_array_equal(prompts.lengths, np.tile([4, 5, 6], 100))
    skills = np.asarray(prompts.tokens)[np.asarray(prompts.lengths) == 6, 1:5] - 13
    assert skills.min() == 0
    assert skills.max() == 39


def test_facts_are_as_designed() -> None:
    design = SkillChainDesign(seed=1, num_skills=80, share_hopeless=0.1, fact_sd=0.0)
    facts = make_facts(design)
    digits = np.arange(10)
    # All eighty maps, each an affine one.
    assert len({tuple(row) for row in facts.results.tolist()}) == 80
    slopes = (facts.results[:, 1:] - facts.results[:, :-1]) % 10
    np.testing.assert_array_equal(slopes, np.broadcast_to(slopes[:, :1], slopes.shape))
    assert not {0, 5} & set(slopes.ravel().tolist())
    assert ((facts.misconceptions - facts.results) % 10 != 0).all()
    assert len(np.unique((facts.misconceptions - facts.results) % 10)) == 9
    assert set(facts.misconceptions.ravel()) == set(digits)
    # Without an effect of the fact all facts of a skill are known alike.
    z = np.log(facts.q / (1 - facts.q))[:, 0]
    np.testing.assert_allclose(facts.q, np.broadcast_to(facts.q[:, :1], facts.q.shape))
    most, least = np.log((1 - 2e-4) / 2e-4), np.log(1e-3 / (1 - 1e-3))
    assert np.isclose(z, most).sum() >= 64
    assert np.isclose(z, least).sum() >= 8
    others = z[~np.isclose(z, most) & ~np.isclose(z, least)]
    assert len(others) > 0
    # Where the skills stand says nothing about them.
    assert not np.isclose(z[:64], most).all()


def test_middling_skills_have_the_mean_and_the_spread_asked_for() -> None:
    many = [
        make_facts(SkillChainDesign(seed, (2,), 80, 0.0, 0.0, mean=-1.0, sd=0.8, fact_sd=0.5))
        for seed in range(30)
    ]
    log_odds = np.log([facts.q / (1 - facts.q) for facts in many])
    skill_means = log_odds.mean(axis=2)
    assert skill_means.mean() == pytest.approx(-1.0, abs=0.1)
    assert skill_means.std() == pytest.approx(np.sqrt(0.64 + 0.25 / 10), abs=0.06)
    assert (log_odds - skill_means[..., None]).std() == pytest.approx(0.5 * np.sqrt(0.9), abs=0.02)


def test_wrong_results_are_carried_on_as_often_as_designed() -> None:
    text, num = "4 s1 s5 s2 =", 20_000
    prompts = parse_prompts(SMALL, [text])
    prompts = Sequences(jnp.tile(prompts.tokens, (num, 1)), jnp.tile(prompts.lengths, num))
    drawn = SMALL.targets(jax.random.split(jax.random.key(0), num), prompts)
    np.testing.assert_array_equal(drawn.lengths, 4)
    np.testing.assert_array_equal(drawn.tokens[:, 3], SMALL.eos)
    codes = (np.asarray(drawn.tokens)[:, :3] - 1) @ np.array([100, 10, 1])
    counts = np.bincount(codes, minlength=1000)

    def law(mends: bool) -> np.ndarray:
        probabilities = np.zeros(1000)
        for digits, probability in outcomes(FACTS, *read(text), mends=mends).items():
            probabilities[int("".join(map(str, digits)))] = probability
        return probabilities

    assert_counts(counts, law(mends=False))
    assert_rejected(lambda: assert_counts(counts, law(mends=True)))
