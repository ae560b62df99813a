"""Canonical answers by the parser of math-verify, an optional package: `pip install rolloutlab[math]`.

Its `verify` compares two answers up to a tolerance and under a time limit, and that is no equivalence relation. Here only its
parser is used: the class of an answer is the text of what it parses to, in sympy's own exact form. The parser drops units and reads
`50%` as one half, unlike the built-in rules. What does not parse within `PARSING_SECONDS` keeps its built-in form.
"""

import importlib.metadata
from functools import lru_cache
from typing import Any

from experiments.rollout_logs.answers import canonical_answer
from theory.errors import InvalidInput

PARSING_SECONDS = 5
"""Only a guard against expressions that never end, such as towers of powers."""


def rules_version() -> str:
    """Name and version of the rules, to be printed beside what was counted by them.

    Returns:
        Such as "math-verify 0.9.0 (parsed form)".

    Raises:
        InvalidInput: the package is not installed.
    """
    try:
        return f"math-verify {importlib.metadata.version('math-verify')} (parsed form)"
    except importlib.metadata.PackageNotFoundError as error:
        raise InvalidInput(
            "math-verify is not installed: pip install 'rolloutlab[math]', or count by the built-in rules"
        ) from error


@lru_cache(maxsize=2**16)
def math_verify_answer(text: str | None) -> str | None:
    """The canonical text of a final answer.

    Args:
        text: as written, or None.

    Returns:
        What it parses to, or the text of the built-in rules where it does not parse; None where there is no answer.

    Raises:
        InvalidInput: the package is not installed.
    """
    plain = canonical_answer(text)
    if plain is None:
        return None
    rules_version()
    import math_verify

    parsed: list[Any] = math_verify.parse(
        f"${plain}$", parsing_timeout=PARSING_SECONDS, raise_on_error=False
    )
    if not parsed or isinstance(parsed[0], str):
        return plain
    # A tower of powers, worked out, would fill the memory: powers stay as they are written.
    return str(parsed[0] if "^" in plain or "**" in plain else parsed[0].doit())
