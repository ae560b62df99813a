"""When to resample: numbers of generated tokens, ascending, below the horizon."""

from theory.errors import InvalidInput


def every(horizon: int, block: int = 1) -> tuple[int, ...]:
    """The schedule that resamples after every block of tokens but the last.

    Args:
        horizon: most tokens of a row.
        block: tokens between resamplings, at least 1.

    Returns:
        Numbers of generated tokens: block, 2 block, ... below the horizon. () is "never".

    Raises:
        InvalidInput: block < 1.
    """
    if block < 1:
        raise InvalidInput(f"block {block}: must be at least 1 token")
    return tuple(range(block, horizon, block))


def check_schedule(resample_after: tuple[int, ...], horizon: int) -> None:
    """Refuse a schedule that is none.

    Args:
        resample_after: numbers of generated tokens.
        horizon: most tokens of a row.

    Raises:
        InvalidInput: names the entry that is not above the one before it, or not in 1..horizon-1.
    """
    before = 0
    for entry in resample_after:
        if not before < entry < horizon:
            raise InvalidInput(
                f"resampling after {entry} tokens: must be above {before} and below the horizon {horizon}"
            )
        before = entry
