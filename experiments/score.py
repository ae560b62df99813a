"""`rolloutlab score`: the log probability that a model gives to recorded trajectories, by one full forward pass."""

import contextlib
import gzip
import math
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, cast

import tyro

from experiments.command_line import default, program
from experiments.json_lines import parse_record
from experiments.json_output import restore, to_line
from experiments.language_model import is_transformer
from experiments.output import STDOUT, check_keeps, check_writable, open_output
from experiments.progress import track
from experiments.scorers import Entry, Scorer, TableScorer, TransformerScorer
from theory.errors import InvalidInput

# By this share of |log p| + 1, or less, two float32 evaluations of one number may part.
TOLERANCE = 1e-5
_BATCH = 4096
_BATCH_TOKENS = 1 << 24
_WRITTEN_ANEW = ("base_logp_reason", "base_logp_tokens_reason")


@dataclass(frozen=True)
class Arguments:
    """Score recorded trajectories: add base_logp and base_logp_tokens, log p of the row's tokens at temperature 1, natural log.

    Reads JSON lines (gzip too) with the field tokens, and prompt where there is one; all other fields are kept as they are. A recorded
    base_logp or base_logp_tokens that differs by more than 1e-5 (1 + |log p|) stays as <field>_recorded.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A JSON model file, builtin:NAME (`rolloutlab models` lists them), or the folder of a transformer."""

    file: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE")]
    """A rollout log in JSON lines."""

    max_new_tokens: Annotated[int | None, default("that of the model")] = None
    """Horizon in tokens, eos included. Longer rows are refused."""

    out: str = STDOUT
    """File for the rows, - for stdout."""


def run(arguments: Arguments) -> int:
    """Score the rows and write them.

    Args:
        arguments: of the command.

    Returns:
        Exit status 0.
    """
    if not arguments.file:
        raise InvalidInput("FILE '': is empty, give a log")
    path = Path(arguments.file)
    scorer: Scorer = (
        TransformerScorer(arguments.model, arguments.max_new_tokens)
        if is_transformer(arguments.model)
        else TableScorer(arguments.model, arguments.max_new_tokens)
    )
    check_writable(arguments.out)
    check_keeps(arguments.out, arguments.model)
    with _open(path) as source, open_output(arguments.out) as stream:
        entries = _entries(path, source)
        size = max(1, min(_BATCH, _BATCH_TOKENS // scorer.horizon, scorer.most_rows))
        batches = iter(lambda: list(islice(entries, size)), [])
        for batch in track(batches, "scoring"):
            scores = scorer.score(batch)
            for entry, log_p in zip(batch, scores, strict=True):
                stream.write(_line(entry, log_p))
    return 0


def _line(entry: Entry, log_p: Sequence[float]) -> bytes:
    try:
        return to_line(rescored(entry.record, log_p)).encode("ascii") + b"\n"
    except RecursionError as error:
        raise InvalidInput(f"{entry.where}: nested too deeply, drop the field that is") from error


def rescored(record: Mapping[str, Any], log_p: Sequence[float]) -> dict[str, Any]:
    """A row with its scores; every other field is kept, in place.

    Args:
        record: as it was read.
        log_p: of each token.

    Returns:
        The row. Fields that were there keep their place, with `<field>_recorded` beside them where they differ; others come last.
    """
    total = -math.inf if -math.inf in log_p else math.fsum(log_p)
    scores: dict[str, Any] = {"base_logp": total, "base_logp_tokens": list(log_p)}
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name in _WRITTEN_ANEW:
            continue
        row[name] = scores.get(name, value)
        if name in scores:
            recorded = restore(
                {key: record[key] for key in (name, f"{name}_reason") if key in record}
            )[name]
            if recorded is not None and _differs(recorded, scores[name]):
                row[_free(f"{name}_recorded", record)] = recorded
            elif recorded is None and isinstance(record.get(f"{name}_reason"), str):
                row[_free(f"{name}_reason_recorded", record)] = record[f"{name}_reason"]
    return row | {name: value for name, value in scores.items() if name not in row}


def _free(name: str, record: Mapping[str, Any]) -> str:
    """The name, or a longer one where the row has a field of that name: nothing of it is lost."""
    while name in record:
        name += "_recorded"
    return name


def _differs(recorded: Any, scored: Any) -> bool:
    """Whether a recorded value is another number than the scored one, beyond float32 accuracy."""
    if isinstance(scored, list):
        if not isinstance(recorded, list) or len(cast(list[Any], recorded)) != len(
            cast(list[Any], scored)
        ):
            return True
        return any(map(_differs, cast(list[Any], recorded), cast(list[Any], scored)))
    if isinstance(recorded, bool) or not isinstance(recorded, int | float):
        return True
    if isinstance(recorded, int) and recorded.bit_length() > 1000:  # no double is as large
        return True
    if not (math.isfinite(recorded) and math.isfinite(scored)):
        return repr(float(recorded)) != repr(scored)
    return abs(recorded - scored) > TOLERANCE * (1 + abs(scored))


@contextlib.contextmanager
def _open(path: Path) -> Generator[Iterable[bytes], None, None]:
    """The log, unpacked."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}), give a log") from error
    with stream:
        packed = stream.peek(2)[:2] == b"\x1f\x8b"  # a pipe cannot be read twice
        yield gzip.GzipFile(fileobj=stream) if packed else stream


def _entries(path: Path, source: Iterable[bytes]) -> Iterator[Entry]:
    for where, line in _lines(path, source):
        fields = parse_record(line, where)
        if fields.get("tokens") is None:
            raise InvalidInput(f"{where}, field 'tokens': missing, there is nothing to score")
        prompt = fields.get("prompt")
        yield Entry(
            where,
            fields,
            () if prompt is None else _token_ids(prompt, f"{where}, field 'prompt'"),
            _token_ids(fields["tokens"], f"{where}, field 'tokens'"),
        )


def _lines(path: Path, source: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Lines with their places; blank ones are passed over."""
    try:
        for number, line in enumerate(source, start=1):
            if line.strip():
                yield f"{path}, row {number}", line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"{path}: cannot be unpacked ({error}), give the whole file") from error


def _token_ids(value: Any, where: str) -> tuple[int, ...]:
    items = cast(list[Any], value) if isinstance(value, list) else None
    if items is None or not all(type(item) is int and 0 <= item < 2**31 for item in items):
        raise InvalidInput(f"{where}: must be a list of token ids, whole numbers from 0 up")
    return tuple(items)


main = program("rolloutlab score", Arguments, run)

if __name__ == "__main__":
    raise SystemExit(main())
