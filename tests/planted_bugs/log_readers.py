"""Wrong twins of how logs of rollouts are read: adapters that make up, drop or turn what a log says, and parts of it that are merged wrongly."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from experiments.rollout_logs.adapters import openai, verl
from experiments.rollout_logs.adapters.base import Request, Started, Values
from experiments.rollout_logs.records import Excluded, Raw
from experiments.rollout_logs.spark import Part, Spark
from experiments.rollout_logs.task_rows import TaskRows
from experiments.rollout_logs.task_table import Column, Work


def _changed(started: Started, change: Callable[[Values], Values | None]) -> Started:
    def convert(raw: Raw) -> Iterator[Values | Excluded]:
        for record in started.convert(raw):
            made = record if isinstance(record, Excluded) else change(record)
            if made is not None:
                yield made

    return started._replace(convert=convert)


def correct_guessed_from_score(first: Sequence[Raw], request: Request) -> Started:
    """A score of one half or more is a success, though the log has no verdict."""
    return _changed(
        verl.ADAPTER.start(first, request),
        lambda values: {"correct": values["reward"] >= 0.5, **values},
    )


def failed_requests_dropped(first: Sequence[Raw], request: Request) -> Started:
    """A request that failed brings no row, so that it counts neither as a failure nor as left out."""
    return _changed(
        openai.ADAPTER.start(first, request),
        lambda values: None if "error" in values else values,
    )


def likelihoods_with_the_sign_of_a_loss(first: Sequence[Raw], request: Request) -> Started:
    """Log probabilities of tokens are taken for their negatives, as a loss has them."""

    def turned(values: Values) -> Values:
        logps = values.get("behavior_logp_tokens") or []
        return values | {"behavior_logp_tokens": [-logp for logp in logps]}

    return _changed(openai.ADAPTER.start(first, request), turned)


def a_line_across_two_parts_read_twice(part: Part) -> Iterator[bytes]:
    """A worker begins with the line that its first byte is in, which the worker before it has read to its end."""
    with open(part.path, "rb") as stream:
        head = stream.read(part.start)
        stream.seek(head.rfind(b"\n") + 1)
        while stream.tell() < part.end and (line := stream.readline()):
            yield line


def a_line_across_two_parts_read_by_none(part: Part) -> Iterator[bytes]:
    """A worker leaves the line that goes beyond its last byte to the next one, which begins after it."""
    with open(part.path, "rb") as stream:
        if part.start:
            stream.seek(part.start - 1)
            stream.readline()
        while (line := stream.readline()) and stream.tell() <= part.end:
            yield line


def last_round_of_workers_lost(
    backend: Spark, chunks: Iterable[TaskRows], work: Work
) -> Iterator[dict[str, Column]]:
    """Chunks of tasks that do not fill a round of all workers are not merged."""
    left, merged = itertools.tee(chunks)
    workers = 2
    whole = sum(1 for _ in left) // workers * workers
    return backend.in_order(itertools.islice(merged, whole), work)


def first_chunk_of_a_round_merged_twice(
    backend: Spark, chunks: Iterable[TaskRows], work: Work
) -> Iterator[dict[str, Column]]:
    """A worker that is asked again gives its numbers again, and both answers are merged."""
    for place, found in enumerate(backend.in_order(chunks, work)):
        yield found
        if place % 2 == 0:
            yield found
