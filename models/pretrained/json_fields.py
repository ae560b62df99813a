"""Reading JSON files whose every complaint names the file and the field."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any

from theory.errors import InvalidInput


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: UTF-8.

    Raises:
        InvalidInput: the file is absent, unreadable, not JSON or not an object.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file, copy it from the published model") from None
    except OSError as error:
        raise InvalidInput(
            f"{path}: cannot be read ({error.strerror}), give a readable file"
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path}: byte {error.start} is not UTF-8, copy the file again"
        ) from None
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{path}: line {error.lineno} is not JSON ({error.msg}), copy the file again"
        ) from None
    except (RecursionError, ValueError):  # nested without end, or a number without end
        raise InvalidInput(
            f"{path}: is nested too deeply or has too long a number, copy the file again"
        ) from None
    if not isinstance(content, dict):
        raise InvalidInput(f"{path}: is not a JSON object, copy the file again")
    return content


@dataclasses.dataclass(frozen=True)
class Fields:
    """Fields of a JSON object, each asked for by its kind. A null counts as absent.

    Attributes:
        where: file (and the field that holds the object), to begin messages with.
        values: the object.
    """

    where: str
    values: Mapping[str, Any]

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(name) is not None

    def count(self, name: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.unfit(name, "a positive whole number")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number from 0 on."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.unfit(name, "a whole number from 0 on")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A positive number that float32 holds."""
        value = self._get(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 1e-37 < value < 1e38
        ):
            raise self.unfit(name, "a positive number that float32 holds")
        return float(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self.unfit(name, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise self.unfit(name, "a string")
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> Any:
        """One of a few strings."""
        value = self.text(name)
        if value not in allowed:
            raise self.unfit(name, " or ".join(allowed))
        return value

    def items(self, name: str, kind: type | UnionType) -> list[Any]:
        """A list of one kind."""
        value = self._get(name, None)
        if not isinstance(value, list) or not all(
            isinstance(item, kind) and not isinstance(item, bool) for item in value
        ):
            raise self.unfit(name, "a list")
        return value

    def inner(self, name: str) -> "Fields":
        """The fields of an object inside; none if it is absent."""
        value = self._get(name, {})
        if not isinstance(value, dict):
            raise self.unfit(name, "an object")
        return Fields(f"{self.where}: {name}", value)

    def unfit(self, name: str, wanted: str) -> InvalidInput:
        """The error for a field of the wrong kind."""
        return InvalidInput(
            f"{self.where}: field {name} is {json.dumps(self.values.get(name))}, write {wanted}"
        )

    def _get(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is not None:
            return value
        if default is None:
            raise InvalidInput(
                f"{self.where}: field {name} is missing, add it from the config.json of the published model"
            )
        return default
