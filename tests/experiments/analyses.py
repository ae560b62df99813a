"""Analyses made by hand: a full one, and full ones in which every text of the log is a given text."""

from experiments.rollout_logs.analysis import (
    Analysis,
    Counts,
    Curve,
    CurvePoint,
    HistogramBin,
    IntervalRecord,
    PolicyRecord,
    ReliabilityBin,
    SampleView,
    Statistic,
    TaskSummary,
    Warned,
)

BOOTSTRAP = "percentile bootstrap over tasks"


def statistic(name: str, value: float | None, width: float = 0.04, **more: object) -> Statistic:
    """One number with an interval of that half width."""
    found = None if value is None else IntervalRecord(value - width, value + width, 0.95, BOOTSTRAP)
    made = Statistic(
        name, value, estimator="unbiased over subsets", tasks=40, samples=(8, 10), seed=0
    )
    return made._replace(interval=found)._replace(**more)


REFUSED = (
    "search and final verifier are both 'unit-tests': a score that is maximised is no measure of what was selected by it; "
    "grade by another verifier and name it in verifier_id_final; selected_proxy_score@K has the number under its right name"
)

STATISTICS = (
    statistic("pass@1", 0.4126, ties="none", notes=("Student's t interval: [0.36, 0.46]",)),
    statistic("pass@2", 0.5512),
    statistic("pass@8", 0.7304),
    statistic("oracle@N", 0.7401),
    statistic("majority@8", 0.5125, missing="14 rows abstain", ties="averaged"),
    statistic("best_of_n@8", None, refusal="R6", reason=REFUSED, tasks=0),
    statistic("best_of_n@2", None, refusal="R6", reason=REFUSED, tasks=0),
    statistic("mean_reward", 0.401, excluded={"reward is not finite": 3}),
    statistic("unique_answer_rate", 0.31),
    statistic("brier", None, refusal="R12", reason="scores reach 3.5", tasks=0),
    statistic("auroc_within", 0.7012),
    statistic("optimism_gap@8", 0.11),
    statistic("tokens_mean", 12345.678, width=321.0),
    statistic("truncated_rate", 0.062),
    statistic("model_calls", 396.0, unit="sum over rows"),
    statistic("ess", 5.31, policy=PolicyRecord(("small v3", "small v4"), "large", 1)),
    statistic("something_new", 1.5),
)


def curve(name: str, start: float, step: float) -> Curve:
    """A curve over 1, 2, 4, 8 whose last point is refused."""
    values = [start + step * place for place in range(3)]
    points = [CurvePoint(2**i, value, value - 0.03, value + 0.03) for i, value in enumerate(values)]
    return Curve(name, (*points, CurvePoint(8, None, None, None)), 40)


def task(place: int) -> TaskSummary:
    """A task whose numbers depend on its place; every fourth is warned of."""
    return TaskSummary(
        prompt_id=f"problem-{place:03}",
        samples=10,
        correct=float(place % 11),
        accuracy=(place % 11) / 10,
        distinct_answers=1 + place % 5,
        top_answer=f"{place * 7 % 13}",
        top_share=0.4,
        mean_score=None,
        mean_reward=(place % 11) / 10,
        mean_tokens=None if place % 10 == 9 else 100.0 + 37 * (place % 7),
        truncated=place % 3,
        errors=0,
        ess=1.0 + place % 9,
        codes=("R15", "R8") if place % 4 == 0 else (),
    )


def sample(prompt: str, place: int) -> SampleView:
    """A row of a task."""
    text = f"First {place},\n\tthen {place + 1}."
    return SampleView(prompt, place, "7", " 7 ", 1.0, 1.0, 0.25, 120, "stop", None, text)


def full_analysis(num_tasks: int = 40) -> Analysis:
    """Something in every section."""
    counts = Counts(
        rows=404,
        used=396,
        excluded={"duplicate": 5, "unreadable": 3},
        prompts=num_tasks,
        samples_per_prompt=(8, 10),
        truncated=24,
        errors=2,
        duplicates=5,
        missing={"score": 14},
    )
    return Analysis(
        inputs=("runs/step_40.jsonl", "runs/step_41.jsonl"),
        format="verl",
        field_map={"prompt_id": "uid", "correct": "acc"},
        absent=("behavior_logp", "wall_s"),
        counts=counts,
        statistics=STATISTICS,
        warnings=(
            Warned("unreadable", "line 17: the line is cut; write it again", 3),
            Warned("R15", "6.1 % of the rows were cut at the horizon: read the bounds", 24),
            Warned("R2", "5 rows stand there twice: the copies are left out", 5),
        ),
        curves=(curve("pass", 0.41, 0.1), curve("majority", 0.4, 0.04)),
        reliability=tuple(
            ReliabilityBin(0.2 * i, 0.2 * i + 0.2, 80, 0.2 * i + 0.1, 0.15 + 0.15 * i)
            for i in range(5)
        ),
        lengths=tuple(
            HistogramBin(100.0 * i, 100.0 * i + 100, 60 - 9 * i, 8 * (i == 5), 0.5)
            for i in range(6)
        ),
        tasks=tuple(map(task, range(num_tasks))),
        samples=tuple(sample(f"problem-{p:03}", s) for p in range(3) for s in range(2)),
        options={"k": "1,2,8", "rules of answers": "1"},
    )


def analysis_of_text(text: str) -> Analysis:
    """Every text field of every record holds this text; no picture, so that it is fast."""
    policy = PolicyRecord((text, text), text, 1)
    made = Statistic(
        name=text,
        value=0.5,
        reason=text,
        estimator=text,
        unit=text,
        tasks=3,
        excluded={text: 1},
        ties=text,
        missing=text,
        nan=text,
        interval=IntervalRecord(0.1, 0.9, 0.95, text),
        policy=policy,
        notes=(text, text),
    )
    refused = made._replace(value=None, refusal=text, interval=None)
    one = TaskSummary(text, 2, 1.0, 0.5, 2, text, 0.5, 0.5, 0.5, 3.0, 0, 0, None, (text, text))
    row = SampleView(text, text, text, text, 1.0, 1.0, 1.0, 3, text, text, text)
    return full_analysis(0)._replace(
        inputs=(text, text),
        format=text,
        field_map={text: text},
        absent=(text, text),
        counts=full_analysis(1).counts._replace(excluded={text: 2}, missing={text: 2}),
        statistics=(made, refused, made._replace(name=f"pass@1{text}")),
        warnings=(Warned(text, text, 1),),
        curves=(),
        reliability=(),
        lengths=(),
        tasks=(one,),
        samples=(row, row),
        options={text: text},
    )
