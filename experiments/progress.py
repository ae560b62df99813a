"""What a person sees on stderr while the work goes on."""

import sys
from collections.abc import Iterable
from typing import Protocol, TypeVar, runtime_checkable

from rich.console import Console
from rich.progress import track as rich_track

ItemT = TypeVar("ItemT")


@runtime_checkable
class Progress(Protocol):
    """Passes items on and shows how far the work has come."""

    def __call__(
        self, items: Iterable[ItemT], description: str, total: int | None = None
    ) -> Iterable[ItemT]:
        """Iterate over `items`.

        Args:
            items: the work.
            description: a few words.
            total: how many items, where they do not know their own number.

        Returns:
            The same items in the same order.
        """
        ...


def track(items: Iterable[ItemT], description: str, total: int | None = None) -> Iterable[ItemT]:
    """A progress bar on stderr, or nothing where stderr is not a terminal.

    Args:
        items: the work.
        description: a few words.
        total: how many items, where they do not know their own number.

    Returns:
        The same items in the same order.
    """
    if not sys.stderr.isatty():
        return items
    console = Console(stderr=True)
    return rich_track(items, description, total=total, console=console, transient=True)


def say(message: str) -> None:
    """Print a message to stderr.

    Args:
        message: for a person.
    """
    print(message, file=sys.stderr)
