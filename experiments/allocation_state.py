"""STATE of `rolloutlab allocate`: what has been seen of each prompt, and the prior.

{"prompts": [{"prompt_id", "successes", "failures", "history": [[successes, failures] or null per update, oldest first]}],
 "prior": {"a", "b"} or {"mixture": [{"weight", "a", "b"} or {"weight", "point"}]}}; prior and history may be left out.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int64

from experiments.json_lines import unique_fields
from theory.allocation.priors import BetaMixture, beta, log_moment, mixture
from theory.errors import InvalidInput

LARGEST_COUNT = 10**9
_WEIGHTS_MAY_MISS = 1e-6
_LEAST_PARAMETER, _LARGEST_PARAMETER = (
    1e-100,
    1e100,
)  # of a Beta: beyond them products leave the range of doubles
_MOST_VISITS = 50_000_000  # prompts times updates, 16 bytes each


class PoolState(NamedTuple):
    """STATE, checked.

    Attributes:
        prompt_ids: as they stand in the file.
        successes: [P] right rollouts of the group under way.
        failures: [P] wrong ones.
        history: [updates, P, 2] successes and failures of earlier updates, oldest first; a prompt with a shorter history than another has joined later,
            and 0, 0 is an update in which it was not drawn.
        prior: of the success rate; None where STATE has none.
    """

    prompt_ids: tuple[str | int, ...]
    successes: Int64[np.ndarray, " P"]
    failures: Int64[np.ndarray, " P"]
    history: Int64[np.ndarray, "U P 2"]
    prior: BetaMixture | None


def read_state(path: Path) -> PoolState:
    """Read STATE.

    Args:
        path: a JSON file.

    Returns:
        The state.

    Raises:
        InvalidInput: it cannot be read, or does not have this form; the message names prompt and field.
    """
    document = _object(_parsed(path), str(path), required=("prompts",), optional=("prior",))
    prompts = document["prompts"]
    if not isinstance(prompts, list) or not prompts:
        raise InvalidInput(f"{path}, field 'prompts': must be a list of one prompt or more")
    entries = cast(list[Any], prompts)
    ids: list[str | int] = []
    counts = np.zeros((len(entries), 2), np.int64)
    histories: list[list[list[int]]] = []
    seen: dict[str | int, int] = {}
    for row, entry in enumerate(entries, start=1):
        where = f"{path}, prompt {row}"
        fields = _object(
            entry, where, ("prompt_id", "successes", "failures"), optional=("history",)
        )
        name = fields["prompt_id"]
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InvalidInput(f"{where}, field 'prompt_id': must be a text or a whole number")
        if name in seen:
            raise InvalidInput(
                f"{where}, field 'prompt_id': {json.dumps(name)} is prompt {seen[name]} already, keep one of them"
            )
        seen[name] = row
        ids.append(name)
        counts[row - 1] = [_count(fields[each], where, each) for each in ("successes", "failures")]
        histories.append(_history(fields.get("history"), where))
    prior = _prior(document["prior"], f"{path}, field 'prior'") if "prior" in document else None
    longest = max(len(history) for history in histories)
    if longest * len(histories) > _MOST_VISITS:
        raise InvalidInput(
            f"{path}, field 'history': {len(histories)} prompts and up to {longest} updates are more than {_MOST_VISITS} entries, keep the latest updates"
        )
    return PoolState(tuple(ids), counts[:, 0], counts[:, 1], _aligned(histories), prior)


def check_possible(state: PoolState, prior: BetaMixture) -> None:
    """Refuse verdicts that the prior excludes: nothing follows from them.

    Args:
        state: what was seen.
        prior: of the success rate.

    Raises:
        InvalidInput: names the first such prompt.
    """
    logs = log_moment(prior, jnp.asarray(state.successes), jnp.asarray(state.failures))
    excluded = np.flatnonzero(~np.isfinite(np.asarray(logs)))
    if excluded.size:
        row = int(excluded[0])
        raise InvalidInput(
            f"prompt {json.dumps(state.prompt_ids[row])}: {state.successes[row]} successes and {state.failures[row]} failures have "
            "probability 0 under the prior, give it a part that allows them"
        )


def _parsed(path: Path) -> Any:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{path}: cannot be read ({error.strerror}), give a STATE file"
        ) from error
    try:
        return json.loads(text, object_pairs_hook=unique_fields, parse_constant=_refuse_constant)
    except InvalidInput as error:
        raise InvalidInput(f"{path}, {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: not a JSON document, mend it") from error


def _refuse_constant(name: str) -> Any:
    raise InvalidInput(f"value {name}: is no number of JSON, give a finite one")


def _object(
    value: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: must be an object with {', '.join(required)}")
    fields = cast(dict[str, Any], value)
    for name in required:
        if name not in fields:
            raise InvalidInput(f"{where}, field '{name}': missing")
    for name in fields:
        if name not in required and name not in optional:
            known = ", ".join((*required, *optional))
            raise InvalidInput(f"{where}, field '{name}': unknown, there are {known}")
    return fields


def _count(value: Any, where: str, name: str) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_COUNT:
        raise InvalidInput(
            f"{where}, field '{name}': must be a whole number from 0 to {LARGEST_COUNT}"
        )
    return value


def _history(value: Any, where: str) -> list[list[int]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(f"{where}, field 'history': must be a list, one entry an update")
    found: list[list[int]] = []
    for entry in cast(list[Any], value):
        if entry is None:
            found.append([0, 0])
            continue
        if not isinstance(entry, list) or len(cast(list[Any], entry)) != 2:
            raise InvalidInput(
                f"{where}, field 'history': an entry must be [successes, failures] or null"
            )
        found.append([_count(each, where, "history") for each in cast(list[Any], entry)])
    return found


def _aligned(histories: list[list[list[int]]]) -> Int64[np.ndarray, "U P 2"]:
    """All histories end now; what was before a prompt's first entry is an update without it."""
    longest = max(len(history) for history in histories)
    aligned = np.zeros((longest, len(histories), 2), np.int64)
    for place, history in enumerate(histories):
        if history:
            aligned[longest - len(history) :, place] = history
    return aligned


def _prior(value: Any, where: str) -> BetaMixture:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: must be an object with a and b, or with mixture")
    if "mixture" not in value:
        fields = _object(cast(Any, value), where, ("a", "b"))
        return beta(*(_parameter(fields[name], where, name) for name in ("a", "b")))
    parts = _object(cast(Any, value), where, ("mixture",))["mixture"]
    if not isinstance(parts, list) or not parts:
        raise InvalidInput(f"{where}, field 'mixture': must be a list of one part or more")
    betas: list[tuple[float, float, float]] = []
    points: list[tuple[float, float]] = []
    for row, part in enumerate(cast(list[Any], parts), start=1):
        at = f"{where}, part {row}"
        if isinstance(part, dict) and "point" in part:
            fields = _object(cast(Any, part), at, ("weight", "point"))
            points.append((_positive(fields["weight"], at, "weight"), _point(fields["point"], at)))
        else:
            fields = _object(part, at, ("weight", "a", "b"))
            a, b = (_parameter(fields[name], at, name) for name in ("a", "b"))
            betas.append((_positive(fields["weight"], at, "weight"), a, b))
    total = math.fsum([part[0] for part in betas] + [part[0] for part in points])
    if abs(total - 1) > _WEIGHTS_MAY_MISS:
        raise InvalidInput(f"{where}, field 'mixture': the weights sum to {total:.9g}, must be 1")
    return mixture(
        [(weight / total, a, b) for weight, a, b in betas],
        [(weight / total, point) for weight, point in points],
    )


def _number(value: Any) -> float:
    """A finite number, or NaN for anything else."""
    if type(value) not in (int, float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _positive(value: Any, where: str, name: str) -> float:
    number = _number(value)
    if not 0 < number < math.inf:
        raise InvalidInput(f"{where}, field '{name}': must be a number above 0")
    return number


def _parameter(value: Any, where: str, name: str) -> float:
    number = _positive(value, where, name)
    if not _LEAST_PARAMETER <= number <= _LARGEST_PARAMETER:
        raise InvalidInput(
            f"{where}, field '{name}': must be from {_LEAST_PARAMETER:g} to {_LARGEST_PARAMETER:g}"
        )
    return number


def _point(value: Any, where: str) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise InvalidInput(f"{where}, field 'point': must be a number in [0, 1]")
    return number
