"""Every sampling method by its name on the command line: its sampler, what one id of it is, and the options that belong to it."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from experiments.command_line import unknown
from experiments.samplers import chains, draws, exact_draws, populations
from experiments.samplers.rows import Sampler
from experiments.samplers.settings import Settings
from theory.errors import InvalidInput
from theory.exact.laws import check_alpha
from theory.rejection import proven_log_bound

TRUNCATING = ("temperature", "top_k", "top_p", "min_p", "order")
_MAX_COUNT = 1_000_000


class Method(NamedTuple):
    """A way to draw rows.

    Attributes:
        sampler: draws them.
        unit: what an id is: a "draw", a "chain" or a "population".
        law: of an unweighted row: "exact" or "approximate".
        options: that belong to it, by the names of `Settings`.
        defaults: where they differ from those of `Settings`.
    """

    sampler: Sampler
    unit: Literal["draw", "chain", "population"]
    law: Literal["exact", "approximate"]
    options: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}


_POWER = ("alpha", "proposal_alpha")
_MOVES = (*_POWER, "steps", "cut")
_PARTICLES = (
    *_POWER,
    "particles",
    "resample",
    "ess_threshold",
    "resampler",
    "block",
    "bridge",
    "draw_one",
)
_ROLLOUTS = ("rollouts", "rollout_tokens")

METHODS: dict[str, Method] = {
    "ancestral": Method(draws.ancestral, "draw", "exact"),
    "temperature": Method(draws.token_rules, "draw", "exact", TRUNCATING),
    "power-exact": Method(exact_draws.power_exact, "draw", "exact", ("alpha",)),
    "importance": Method(draws.importance, "draw", "exact", _POWER),
    "rejection": Method(
        draws.rejection,
        "draw",
        "exact",
        (*_POWER, "log_bound", "max_rounds"),
        {"proposal_alpha": 1.0},
    ),
    "independence-mh": Method(chains.independence, "chain", "approximate", _MOVES),
    "suffix-mh": Method(chains.suffix, "chain", "approximate", _MOVES),
    "multiple-try-mh": Method(chains.multiple_tries, "chain", "approximate", (*_MOVES, "tries")),
    "blockwise-mh": Method(
        chains.stages, "chain", "approximate", (*_MOVES, "block"), {"block": 16}
    ),
    "smc": Method(populations.plain, "population", "approximate", (*_PARTICLES, "ramp")),
    "adapted-smc": Method(populations.adapted, "population", "approximate", _PARTICLES),
    "lookahead-smc": Method(
        populations.lookahead, "population", "approximate", (*_PARTICLES, *_ROLLOUTS)
    ),
    "twisted-smc": Method(
        populations.twisted, "population", "approximate", (*_PARTICLES, "twist", *_ROLLOUTS)
    ),
    "particle-gibbs": Method(
        chains.gibbs,
        "chain",
        "approximate",
        (*_POWER, "steps", "particles", "resample", "ess_threshold", "resampler", "block"),
    ),
    "parallel-tempering": Method(
        chains.tempering, "chain", "approximate", ("alpha", "ladder", "steps", "cut")
    ),
    "tilted-mh": Method(
        chains.tilted,
        "chain",
        "approximate",
        ("reward", "beta", "proposal_alpha", "steps", "cut"),
        {"alpha": 1.0, "proposal_alpha": 1.0},
    ),
}


def find_method(name: str) -> Method:
    """Look a method up.

    Args:
        name: a key of METHODS.

    Returns:
        The method.

    Raises:
        InvalidInput: there is no such method; names the closest.
    """
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def make_settings(name: str, given: Mapping[str, Any]) -> Settings:
    """Check the options that were given, and fill in the defaults of the method for the others.

    The tables that a twist, a reward or an exact law stand for are put in afterwards (`dataclasses.replace`).

    Args:
        name: of the method.
        given: options by the names of `Settings`, without those that were left out; `twist` and `reward` are words.

    Returns:
        The settings.

    Raises:
        InvalidInput: an option does not belong to the method, is outside its domain, or contradicts another; names it.
    """
    method = find_method(name)
    for option, value in given.items():
        if option not in method.options:
            raise _stranger(name, method, option)
        _check(option, value)
    values = {**method.defaults, **given}
    for word in ("twist", "reward"):
        values.pop(word, None)
    if "ladder" in method.options:
        values |= _ladder(given)
    if "proposal_alpha" in method.options and "proposal_alpha" not in values:
        values["proposal_alpha"] = values.get("alpha", Settings.alpha)
    if name == "rejection" and "log_bound" not in given:
        values["log_bound"] = math.inf  # until the model is known: `bounded`
    settings = Settings(**values, induced="proposal_alpha" not in given)
    _check_together(name, given, settings)
    return settings


def bounded(settings: Settings, vocab_size: int, horizon: int) -> float:
    """The bound of a rejection sampler: what was given, else the proven one.

    Args:
        settings: of the method.
        vocab_size: V of the model.
        horizon: of the model.

    Returns:
        Log bound, natural.

    Raises:
        InvalidInput: none was given and none is proven.
    """
    if math.isfinite(settings.log_bound):
        return settings.log_bound
    return proven_log_bound(settings.alpha, settings.proposal_alpha, vocab_size, horizon)


def rows_side_by_side(settings: Settings, method: Method, vocab_size: int) -> int:
    """How many rows the device holds for one id, by which batches are cut.

    Args:
        settings: of the method.
        method: the method.
        vocab_size: V of the model; a twist is asked for every child of a row.

    Returns:
        At least 1.
    """
    width = 1
    if method.unit == "population" or "particles" in method.options:
        width *= settings.particles
    if "tries" in method.options:
        width *= settings.tries
    if "twist" in method.options:
        width *= vocab_size
    if "rollouts" in method.options:
        width *= settings.rollouts
    return width * max(1, len(settings.ladder))


def _stranger(name: str, method: Method, option: str) -> InvalidInput:
    flag = _flag(option)
    if option in TRUNCATING and "proposal_alpha" in method.options:
        return InvalidInput(
            f"{flag}: '{name}' needs a proposal with the full support of its target, which token rules cut off; "
            f"leave it out, --proposal-alpha tempers the proposal"
        )
    takes = ", ".join(map(_flag, method.options)) or "no options of its own"
    return InvalidInput(f"{flag}: not an option of '{name}', leave it out; it takes {takes}")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _one_of(choices: tuple[str, ...]) -> Callable[[str, Any], None]:
    def check(option: str, value: Any) -> None:
        if value not in choices:
            raise unknown(_flag(option), value, choices)

    return check


def _within(is_allowed: Callable[[Any], bool], domain: str) -> Callable[[str, Any], None]:
    def check(option: str, value: Any) -> None:
        if not is_allowed(value):
            raise InvalidInput(f"{_flag(option)} {value}: must be {domain}")

    return check


def _exponent(option: str, value: Any) -> None:
    try:
        check_alpha(value)
    except InvalidInput as error:
        raise InvalidInput(f"{_flag(option)}: {error}") from error


def _at_least(low: int) -> Callable[[str, Any], None]:
    return _within(lambda value: low <= value <= _MAX_COUNT, f"in {low}..{_MAX_COUNT}")


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "alpha": _exponent,
    "proposal_alpha": _exponent,
    "temperature": _within(lambda value: 0 <= value < math.inf, "a finite number from 0 up"),
    "top_k": _within(lambda value: 1 <= value < 2**31, f"in 1..{2**31 - 1}"),
    "top_p": _within(lambda value: 0 <= value <= 1, "in 0..1"),
    "min_p": _within(lambda value: 0 <= value <= 1, "in 0..1"),
    "log_bound": _within(math.isfinite, "a finite number"),
    "max_rounds": _within(lambda value: 1 <= value < 2**31, f"in 1..{2**31 - 1}"),
    "steps": _at_least(0),
    "cut": _one_of(tuple(chains.CUTS)),
    "tries": _at_least(1),
    "block": _at_least(1),
    "particles": _at_least(1),
    "resample": _one_of(("every", "never", "ess")),
    "ess_threshold": _within(lambda value: 0 <= value <= 1, "in 0..1, a share of the particles"),
    "resampler": _one_of(tuple(populations.RESAMPLERS)),
    "bridge": _one_of(("none", "linear")),
    "ramp": _at_least(1),
    "rollouts": _at_least(1),
    "rollout_tokens": _at_least(1),
    "beta": _within(lambda value: 0 < value < math.inf, "a finite number above 0"),
}


def _check(option: str, value: Any) -> None:
    if option in _CHECKS:
        _CHECKS[option](option, value)


def _ladder(given: Mapping[str, Any]) -> dict[str, Any]:
    """The exponents of parallel tempering; by default 1, 2, 3, ... and alpha."""
    ladder: tuple[float, ...] = given.get("ladder", ())
    if not ladder:
        alpha = given.get("alpha", Settings.alpha)
        if not 1 < alpha <= 16:
            raise InvalidInput(
                f"--ladder: none is assumed for alpha {alpha:g}, give ascending exponents that end there"
            )
        return {"ladder": (*map(float, range(1, math.ceil(alpha))), alpha)}
    for exponent in ladder:
        _exponent("ladder", exponent)
    shown = ",".join(f"{exponent:g}" for exponent in ladder)
    if len(ladder) < 2 or any(low >= high for low, high in pairwise(ladder)):
        raise InvalidInput(f"--ladder {shown}: must be two or more exponents in ascending order")
    if given.get("alpha", ladder[-1]) != ladder[-1]:
        raise InvalidInput(f"--ladder {shown}: must end at --alpha {given['alpha']:g}")
    return {"ladder": ladder, "alpha": ladder[-1]}


def _check_together(name: str, given: Mapping[str, Any], settings: Settings) -> None:
    """Refuse options that contradict each other."""
    if settings.bridge != "none" and name != "smc":
        raise InvalidInput(f"--bridge {settings.bridge}: only 'smc' bridges, leave it out")
    if settings.bridge != "none" and "proposal_alpha" in given:
        raise InvalidInput(
            "--proposal-alpha: the bridge draws each stage at its own exponent, leave one of them out"
        )
    if settings.bridge == "none" and "ramp" in given:
        raise InvalidInput("--ramp: belongs to --bridge linear, give both or none")
    if name == "adapted-smc" and settings.proposal_alpha != settings.alpha:
        raise InvalidInput(
            f"--proposal-alpha {settings.proposal_alpha}: the adapted filter proposes at alpha "
            f"{settings.alpha}, leave it out or take smc"
        )
    if name == "twisted-smc" and given.get("twist") != "lookahead":
        for option in _ROLLOUTS:
            if option in given:
                raise InvalidInput(f"{_flag(option)}: belongs to --twist lookahead, leave it out")
    if name == "particle-gibbs" and settings.resampler not in populations.CONDITIONAL:
        raise InvalidInput(
            f"--resampler {settings.resampler}: has no conditional version, particle-gibbs takes "
            f"{', '.join(populations.CONDITIONAL)}"
        )
    if name == "particle-gibbs" and settings.particles < 2:
        raise InvalidInput("--particles 1: particle-gibbs needs at least 2, the reference included")
    if name == "tilted-mh" and "reward" not in given:
        raise InvalidInput("--reward: missing, 'tilted-mh' needs a JSON file of sequence -> number")
