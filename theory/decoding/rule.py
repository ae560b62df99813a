"""What a token rule is: one step from the law a model gives to the law that tokens are drawn from.

A rule is a NamedTuple of its parameters and hence a pytree: a pipeline is an argument of a compiled function, and a sweep
over temperatures compiles once. A parameter is a number, or an array with one number a row [B], so that a greedy row
may stand beside a hot one. The constructor of each rule (`top_p(0.9)`) refuses parameters outside their domain.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Real

from theory.errors import InvalidInput

Parameter = float | int | Real[Array, ""] | Real[Array, " B"]


@runtime_checkable
class TokenRule(Protocol):
    """A map from logits to logits, row by row.

    What it does to a row depends only on the law that the row's logits stand for (softmax) and on the row's counts: adding
    a constant to a row changes nothing. A token that comes in with -inf goes out with -inf. A row that has a law on the way in
    and none on the way out (every token masked) is all -inf, and `token_law` raises its flag.
    """

    @property
    def name(self) -> str:
        """By which an order of rules names it."""
        ...

    @property
    def reads_counts(self) -> bool:
        """Whether the result depends on the tokens that the row has generated."""
        ...

    def truncates(self) -> bool:
        """Whether some law may lose a token of positive probability. Eager: reads the parameters."""
        ...

    def __call__(
        self, logits: Float[Array, "B V"], counts: Int[Array, "B V"]
    ) -> Float[Array, "B V"]:
        """Transform the logits.

        Args:
            logits: [B, V] natural log, unnormalised; -inf is a real zero.
            counts: [B, V] how often each row has generated each token, pads never counted.

        Returns:
            [B, V] logits.
        """
        ...


@runtime_checkable
class Filter(TokenRule, Protocol):
    """A rule that keeps some tokens, with their relative probabilities, and cuts off the rest.

    Called as a rule it masks the logits it is given: in a pipeline that is the *sequential* reading, in which each filter sees
    the renormalised law that the filters before it left. `joint` puts filters side by side on one law.
    """

    @property
    def keeps_mode(self) -> bool:
        """Whether the lowest-index most likely token is always kept."""
        ...

    def keep(self, logits: Float[Array, "B V"]) -> Bool[Array, "B V"]:
        """Which tokens stay.

        Args:
            logits: [B, V] natural log, unnormalised.

        Returns:
            [B, V] mask; what it says of a token with -inf does not matter.
        """
        ...


def per_row(value: Parameter, logits: Float[Array, "B V"]) -> Float[Array, "B 1"]:
    """A parameter as one number for each row.

    Args:
        value: a number or [B].
        logits: [B, V] for the shape and the dtype.

    Returns:
        [B, 1].
    """
    rows = jnp.broadcast_to(jnp.asarray(value, logits.dtype), logits.shape[:1])
    return rows[:, None]


def cut(logits: Float[Array, "B V"], keep: Bool[Array, "B V"]) -> Float[Array, "B V"]:
    """Set what is not kept to a real zero.

    Args:
        logits: [B, V].
        keep: [B, V].

    Returns:
        [B, V] with -inf where a token is cut off.
    """
    return jnp.where(keep, logits, -jnp.inf)


def check_parameter(
    what: str, value: Parameter, is_allowed: Callable[[np.ndarray], np.ndarray], domain: str
) -> None:
    """Refuse a parameter outside its domain. Eager: reads the values.

    Args:
        what: name of the rule.
        value: a number or [B].
        is_allowed: which numbers of an array are in the domain; NaN is not.
        domain: in words.

    Raises:
        InvalidInput: names the rule, the number, its row if there are several, and the domain.
    """
    values = np.atleast_1d(np.asarray(value))
    inside = is_allowed(values)
    if not inside.all():
        row = int(np.argmin(inside))
        where = f" in row {row}" if np.ndim(value) else ""
        raise InvalidInput(f"{what} {values[row]}{where}: must be {domain}")


def check_fraction(what: str, value: Parameter) -> None:
    """Refuse a parameter outside 0..1. Eager: reads the values.

    Args:
        what: name of the rule.
        value: a number or [B].

    Raises:
        InvalidInput: names the rule, the number and its row.
    """
    check_parameter(what, value, lambda values: (values >= 0) & (values <= 1), "in 0..1")
