"""The conditions under which a number would be dishonest: a code, the condition, plain words, and the option that makes it honest."""

from typing import NamedTuple

from experiments.rollout_logs.analysis import Warned


class Refusal(NamedTuple):
    """One condition.

    Attributes:
        code: R0 ... R20.
        condition: what is found in the log.
        words: why the number would mislead.
        option: what to do to have an honest one.
    """

    code: str
    condition: str
    words: str
    option: str


class Refused(NamedTuple):
    """A condition met by a log.

    Attributes:
        code: R0 ... R20.
        reason: one line: what was found, why that matters and the mend.
    """

    code: str
    reason: str


_ALL = (
    Refusal(
        "R0",
        "a field that the number needs is in no row",
        "what was not recorded is never guessed",
        "record the field, or name it with --map FIELD=NAME",
    ),
    Refusal(
        "R1",
        "k is greater than the samples of some prompt",
        "k of them cannot be drawn, and the prompts that have enough are other prompts",
        "ask for a smaller k with --k, or analyze the prompts with enough samples by themselves",
    ),
    Refusal(
        "R2",
        "one (prompt, sample) stands there twice",
        "a row counted twice is no second draw",
        "drop the copies; rows that differ need sample ids of their own",
    ),
    Refusal(
        "R3",
        "rows of a prompt share a branch, a parent, a population or a chain, or are revisions of each other",
        "they are not independent draws, and estimators over subsets of independent draws say nothing about them",
        "keep one row of each tree, chain or population; oracle@N and weighted means remain",
    ),
    Refusal(
        "R4",
        "rows of one prompt come from several policies or sampler settings",
        "their mixture is no policy that anybody runs",
        "analyze each policy by itself",
    ),
    Refusal(
        "R5",
        "the order of the samples of a prompt is not exchangeable",
        "the first k are no random k",
        "use the estimators here: they are over all subsets of k, not over the first k",
    ),
    Refusal(
        "R6",
        "the verifier that selected is the verifier that graded",
        "a score that is maximised is no measure of what was selected by it",
        "grade by another verifier and name it in verifier_id_final; selected_proxy_score@K has the number under its right name",
    ),
    Refusal(
        "R7",
        "log probabilities are means over tokens, or look like them",
        "a mean is no log probability of a trajectory, and products of ratios need the sum",
        "record sums and say so: logp_reduction sum",
    ),
    Refusal(
        "R8",
        "more than 1 % of the values are absent, not finite, positive log probabilities or stand-ins such as -9999",
        "what is left is a selection",
        "record them, or analyze the rows that have them and say so",
    ),
    Refusal(
        "R9",
        "one log probability is of the truncated, renormalised law and the other of the whole vocabulary",
        "each ratio is off by the mass that truncation kept",
        "record both from the same law",
    ),
    Refusal(
        "R10",
        "correct is absent and the reward is not 0 or 1",
        "a partial reward is no success",
        "say what counts as success with --success-threshold X",
    ),
    Refusal(
        "R11",
        "rewards are not finite, or rows ended in an error",
        "an unknown outcome is no failure and no success",
        "read the bounds with all of them wrong and all of them right",
    ),
    Refusal(
        "R12",
        "a score is outside [0, 1]",
        "it is no probability, and a negative one no weight of a vote",
        "map scores to probabilities with other prompts, and record those",
    ),
    Refusal(
        "R13",
        "prompts have no id and were grouped by the hash of their text",
        "different prompts of equal text (images, references) become one",
        "name the field of the id with --map prompt_id=NAME",
    ),
    Refusal(
        "R14",
        "fewer than 20 prompts",
        "intervals over so few tasks are too short",
        "give more prompts; Student's interval in the notes is the wider one",
    ),
    Refusal(
        "R15",
        "more than 5 % of the rows were cut at the horizon",
        "what they would have answered is unknown",
        "raise the horizon, or read the bounds with all of them wrong and all of them right",
    ),
    Refusal(
        "R16",
        "the input holds aggregates, or each row once a filter",
        "an aggregate is no rollout, and a row counted once a filter is counted several times",
        "give the rollouts themselves, or choose a filter with --filter NAME",
    ),
    Refusal(
        "R17",
        "the two logs have different prompts or numbers of samples",
        "the difference of two means over different tasks is one of tasks, not of policies",
        "read the paired difference on the prompts in common",
    ),
    Refusal(
        "R18",
        "behavior_logp is absent where a weight needs it",
        "a weight without its denominator is a guess",
        "record the log probability of the rule that drew, in behavior_logp",
    ),
    Refusal(
        "R19",
        "behavior_logp is of temperature 1, and the rows were drawn at another temperature or truncated",
        "it is not the law that drew the rows",
        "record processed log probabilities",
    ),
    Refusal(
        "R20",
        "the proposal does not cover the target: it was truncated, or its draws hold almost none of the target's mass",
        "what the proposal cannot draw no weight brings back",
        "draw without top-p, top-k and min-p, lower the exponent, or draw from the target with rolloutlab sample",
    ),
)

REFUSALS: dict[str, Refusal] = {refusal.code: refusal for refusal in _ALL}


def refuse(code: str, found: str) -> Refused:
    """Put a condition in words.

    Args:
        code: R0 ... R20.
        found: what this log has.

    Returns:
        The refusal with found, why and mend on one line.
    """
    refusal = REFUSALS[code]
    return Refused(code, f"{found}: {refusal.words}; {refusal.option}")


def refuse_for(code: str, found: str, mend: str) -> Refused:
    """A condition that is near to one of the codes, with a mend of its own.

    Args:
        code: R0 ... R20.
        found: what this log has, and why the number would mislead; without a semicolon.
        mend: what to do to have an honest one; without a semicolon.

    Returns:
        The refusal on one line.
    """
    return Refused(code, f"{found}; {mend}")


def warn(code: str, found: str, num_rows: int) -> Warned:
    """The same condition where a number is still given.

    Args:
        code: R0 ... R20.
        found: what this log has.
        num_rows: rows or prompts concerned.

    Returns:
        The warning.
    """
    refusal = REFUSALS[code]
    return Warned(code, f"{found}: {refusal.words}; {refusal.option}", num_rows)
