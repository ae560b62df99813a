"""What the reader of the numbers must know, in the order of the codes."""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.rollout_logs.analysis import Statistic, Warned
from experiments.rollout_logs.checks import missing_of
from experiments.rollout_logs.facts import Facts
from experiments.rollout_logs.formats import Skipped
from experiments.rollout_logs.refusals import warn
from experiments.rollout_logs.staging import Staged
from experiments.rollout_logs.statistics.copies import copies
from experiments.rollout_logs.task_table import Column, Log
from experiments.rollout_logs.wording import plural
from theory.estimators.order import OrderSums, order_test

FEW_TASKS = 20
ZERO_SHARE = 0.05
ORDER_LIMIT = 1e-4
TRUNCATED_SHARE = 0.05


def warnings_of(
    log: Log,
    skipped: Sequence[Skipped],
    staged: Staged,
    duplicates: Mapping[tuple[str, str], int],
    statistics: Sequence[Statistic],
) -> tuple[Warned, ...]:
    """Everything that was found beside the numbers.

    Args:
        log: facts and table.
        skipped: files of folders that were not read.
        staged: what was left out while reading.
        duplicates: (prompt, sample) -> copies left out.
        statistics: with their refusals.

    Returns:
        The warnings.
    """
    facts = log.facts
    found: list[Warned] = [
        Warned(
            _code(reason),
            f"{number} left out: {reason} ({', '.join(staged.examples[reason])})",
            number,
        )
        for reason, number in sorted(staged.excluded.items())
    ]
    found += [Warned(each.code, f"{each.path} was not read: {each.reason}", 1) for each in skipped]
    if duplicates:
        names = "; ".join(
            f"prompt {prompt}, sample {sample}" for prompt, sample in list(duplicates)[:5]
        )
        found.append(warn("R2", f"copies of rows were left out: {names}", sum(duplicates.values())))
    found += copies(log)
    missing = missing_of(log, "score")
    if facts.present["score"] and missing:
        found.append(
            warn(
                "R8",
                f"{missing} rows have no finite score and are left out of score statistics",
                missing,
            )
        )
    for name, number in facts.unusable.items():
        if number:
            found.append(
                warn(
                    "R8",
                    f"{number} rows have a {name} that is positive, not finite or a stand-in",
                    number,
                )
            )
    if facts.reward_not_finite or facts.failed:
        number = facts.reward_not_finite + facts.failed
        found.append(
            warn(
                "R11",
                f"{facts.reward_not_finite} rewards are not finite and {facts.failed} rows have an error",
                number,
            )
        )
    found += _rows_of_prompts(log)
    if facts.prompts < FEW_TASKS:
        found.append(warn("R14", plural(facts.prompts, "prompt"), facts.prompts))
    if facts.truncated > TRUNCATED_SHARE * facts.rows:
        found.append(
            warn(
                "R15",
                f"{facts.truncated} of {facts.rows} rows ({facts.truncated / facts.rows:.1%}) were truncated",
                facts.truncated,
            )
        )
    return tuple(sorted([*found, *_refusals(statistics)], key=_rank))


def _code(reason: str) -> str:
    return reason if reason == "unreadable" else reason.replace(" ", "-")


def _refusals(statistics: Sequence[Statistic]) -> list[Warned]:
    """Each refusal but R0 once, with the statistics that it took."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for statistic in statistics:
        if statistic.refusal not in (None, "R0") and statistic.reason is not None:
            reasons.setdefault((str(statistic.refusal), statistic.reason), []).append(
                statistic.name
            )
    return [
        Warned(code, f"{', '.join(names)} refused: {reason}", len(names))
        for (code, reason), names in reasons.items()
    ]


def _rank(warned: Warned) -> tuple[int, str]:
    code = warned.code
    return (int(code[1:]), "") if code[0] == "R" and code[1:].isdigit() else (-1, code)


def _rows_of_prompts(log: Log) -> list[Warned]:
    """What is odd about the rows of a prompt together."""
    facts, table = log.facts, log.table
    found: list[Warned] = []
    if "trend" in table and (p := order_test(_order_sums(table)).p_value) < ORDER_LIMIT:
        found.append(
            warn("R5", f"outcomes depend on the place of the sample (p = {p:.2g})", facts.prompts)
        )
    if facts.present["prompt_hashed"]:
        number = facts.present["prompt_hashed"]
        found.append(warn("R13", f"{number} rows have no prompt id", number))
    if facts.steps > 1:
        message = (
            f"rows are of {facts.steps} steps and no prompt has rows of two: numbers are means over steps and their policies, "
            "and a prompt that came again is another task; analyze the files of one step, or compare two"
        )
        found.append(Warned("steps", message, facts.rows))
    if "mixed_answers" in table and table["mixed_answers"].any():
        number = int(table["mixed_answers"].sum())
        message = f"{number} answers have rows of both outcomes: an answer is worth its mean; check the verdicts"
        found.append(Warned("mixed-answers", message, number))
    silent = next(
        (name for name in table if name.startswith("no_vote@") and np.nansum(table[name])), None
    )
    if silent is not None:
        number = int(np.count_nonzero(table["voters"] < table["known"]))
        message = f"{number} prompts have rows without an answer: they abstain, and a vote without any answer counts 0"
        found.append(Warned("no-answers", message, number))
    laws = facts.distinct.get("law", ())
    if "weighted" in laws:
        message = "rows are weighted draws: unweighted statistics are of the proposal; is_mean and snis_mean use the weights"
        found.append(Warned("weighted", message, facts.rows))
    if "approximate" in laws:
        message = "rows are approximate draws: statistics are of what the sampler draws in finitely many steps"
        found.append(Warned("approximate", message, facts.rows))
    if facts.related_prompts:
        words = f"{facts.related_prompts} prompts have rows that are related"
        if facts.branches is not None:
            first, second = facts.branches
            most = facts.samples[1]
            words += f", with {first:.3g} different first steps and {second:.3g} different first two steps among {most}"
        found.append(warn("R3", words, facts.related_prompts))
    found += _provenance(facts)
    if facts.policy.lag:
        message = (
            f"the oldest and the newest row are {facts.policy.lag} versions of the policy apart"
        )
        found.append(Warned("lag", message, facts.policy.lag))
    return found


def _provenance(facts: Facts) -> list[Warned]:
    """Whether behavior_logp is of the law that drew is not said, and not clear either.

    It is clear where every row was drawn at temperature 1 from all tokens, or says what it is a draw from: rows of our own samplers do.
    """
    number = facts.present["behavior_logp"]
    plain = facts.present["temperature"] == facts.rows and not (facts.tempered or facts.cut_rule)
    said = bool(facts.present["behavior_logp_source"]) or facts.present["law"] == facts.rows
    if not number or said:
        return []
    message = f"no field says whether the behavior_logp of {number} rows is raw or processed by temperature and truncation"
    share = facts.zero_logp_share
    if share is not None and share > ZERO_SHARE:
        message += (
            f"; {share:.1%} of the tokens have a log probability of exactly 0: it looks processed"
        )
    elif plain:
        return []
    return [Warned("provenance", f"{message}; record behavior_logp_source", number)]


def _order_sums(table: Mapping[str, Column]) -> OrderSums:
    return OrderSums(*(table[name] for name in OrderSums._fields))
