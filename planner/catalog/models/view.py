"""Typed access to a config.json that remembers every problem instead of stopping at the first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard, TypeVar

from planner.domain.errors import InputError, Issue

# No published dimension comes near this; larger values are typing errors that would overflow later sums.
LARGEST_INTEGER = 10**12
MOST_LAYERS = 10_000
_T = TypeVar("_T")


class ConfigView:
    """A JSON object with its path. Readers name all spellings of a key; the first present and non-null one wins.

    Accessors never raise. A missing or unusable key is recorded once and a harmless placeholder is returned, so
    that a reader reports every missing key of a file in one go; `finish` raises what was recorded.
    """

    def __init__(
        self,
        data: Mapping[str, object],
        *,
        file: str,
        path: str = "$",
        issues: dict[tuple[str, str], Issue] | None = None,
    ) -> None:
        self._data = data
        self._file = file
        self._path = path
        self._issues = {} if issues is None else issues

    # --- problems ---

    def where(self, key: str | None = None) -> str:
        """Return ``file @ $.path.key``."""
        return f"{self._file} @ {self._path}" + (f".{key}" if key else "")

    def problem(self, code: str, *, what: str, why: str, fix: str, key: str | None = None) -> None:
        """Record a problem with this object or with one of its keys."""
        where = self.where(key)
        self._issues.setdefault((code, where), Issue(code=code, what=what, why=why, fix=fix, where=where))

    def missing(self, names: Sequence[str]) -> None:
        """Record that none of `names` is there."""
        spelt = "' or '".join(names)
        self.problem(
            "model.key-missing",
            what=f"missing key '{spelt}'",
            why="the structure of the model depends on it and is never guessed",
            fix=f"add '{names[0]}' to {self._path} of {self._file}, as in the published config.json",
            key=names[0],
        )

    def wrong(self, key: str, expected: str) -> None:
        """Record that `key` holds something other than `expected`."""
        shown = repr(self._data.get(key))
        self.problem(
            "model.key-invalid",
            what=f"'{key}' is {shown if len(shown) <= 60 else shown[:57] + '...'}",
            why=f"it must be {expected}",
            fix=f"compare '{key}' with the published config.json",
            key=key,
        )

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Problems recorded so far, in order."""
        return tuple(self._issues.values())

    def finish(self) -> None:
        """Raise InputError with everything recorded, if anything was."""
        if self._issues:
            raise InputError(*self._issues.values())

    # --- access ---

    @property
    def file(self) -> str:
        """Name of the file the object came from."""
        return self._file

    def has(self, *names: str) -> bool:
        """Whether one of `names` is present and not null."""
        return any(self._data.get(n) is not None for n in names)

    def mentions(self, *names: str) -> bool:
        """Whether one of `names` is present, null included: null says "none", absence says nothing."""
        return any(n in self._data for n in names)

    def raw(self, name: str) -> object:
        """Return the value as parsed, None when absent."""
        return self._data.get(name)

    def child(self, name: str) -> ConfigView:
        """View of a nested object; recorded as missing when it is not one."""
        value = self._data.get(name)
        if isinstance(value, Mapping):
            return ConfigView(value, file=self._file, path=f"{self._path}.{name}", issues=self._issues)
        if value is None:
            self.missing((name,))
        else:
            self.wrong(name, "an object")
        return ConfigView({}, file=self._file, path=f"{self._path}.{name}", issues=self._issues)

    def replaced(self, **values: object) -> ConfigView:
        """Return the same object with some keys set; problems go to the same record."""
        return ConfigView({**self._data, **values}, file=self._file, path=self._path, issues=self._issues)

    def other(self, data: Mapping[str, object], *, file: str) -> ConfigView:
        """View of another file whose problems belong to the same report."""
        return ConfigView(data, file=file, issues=self._issues)

    def _first(self, names: Sequence[str]) -> str | None:
        return next((n for n in names if self._data.get(n) is not None), None)

    def optional_integer(self, *names: str, minimum: int = 0) -> int | None:
        """Whole number of at least `minimum`, or None when no spelling is present."""
        key = self._first(names)
        if key is None:
            return None
        value = self._data[key]
        if not is_integer(value) or not minimum <= int(value) <= LARGEST_INTEGER:
            self.wrong(key, f"a whole number of at least {minimum}")
            return max(minimum, 1)
        return int(value)

    def integer(self, *names: str, minimum: int = 1) -> int:
        """Whole number of at least `minimum`; recorded as missing when no spelling is present."""
        value = self.optional_integer(*names, minimum=minimum)
        if value is None:
            self.missing(names)
            return max(minimum, 1)
        return value

    def layers(self, *names: str) -> int:
        """A number of layers: like `integer`, bounded to what a config can mean."""
        value = self.integer(*names)
        if value > MOST_LAYERS:
            self.wrong(self._first(names) or names[0], f"at most {MOST_LAYERS}")
            return 1
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Boolean switch; `default` is what the model's own class does when the key is absent."""
        value = self._data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool) and value not in (0, 1):
            self.wrong(name, "true or false")
            return default
        return bool(value)

    def text(self, *names: str) -> str | None:
        """Return the first present string, None when absent."""
        key = self._first(names)
        if key is None:
            return None
        value = self._data[key]
        if not isinstance(value, str):
            self.wrong(key, "a string")
            return None
        return value

    def integers(self, name: str, *, length: int | None = None, minimum: int = 0) -> list[int] | None:
        """List of whole numbers, None when absent; at least `length` entries (extra ones are MTP layers)."""
        value = self._data.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(is_integer(v) and int(v) >= minimum for v in value):
            self.wrong(name, f"a list of whole numbers of at least {minimum}")
            return None
        return self._sized(name, [int(v) for v in value], length)

    def words(self, name: str, *, allowed: Iterable[str], length: int | None = None) -> list[str] | None:
        """List of strings out of `allowed`, None when absent; at least `length` entries."""
        value = self._data.get(name)
        if value is None:
            return None
        known = tuple(allowed)
        if not isinstance(value, list) or not all(isinstance(v, str) and v in known for v in value):
            self.wrong(name, f"a list of {', '.join(known)}")
            return None
        return self._sized(name, list(value), length)

    def _sized(self, name: str, values: list[_T], length: int | None) -> list[_T] | None:
        if length is not None and len(values) < length:
            self.problem(
                "model.key-invalid",
                what=f"'{name}' has {len(values)} entries",
                why=f"it must describe each of the {length} layers",
                fix=f"compare '{name}' with the published config.json",
                key=name,
            )
            return None
        return values if length is None else values[:length]

    def per_layer(self, *names: str, length: int, minimum: int = 1) -> list[int]:
        """A number for all layers, or a list with one per layer; recorded as missing when absent."""
        key = self._first(names)
        if key is not None and isinstance(self._data[key], list):
            values = self.integers(key, length=length, minimum=minimum)
            return values if values is not None else [max(minimum, 1)] * length
        return [self.integer(*names, minimum=minimum)] * length


def is_integer(value: object) -> TypeGuard[int | float]:
    """Whether `value` is a whole number; JSON writers also spell them 64.0."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (
        isinstance(value, float) and math.isfinite(value) and value.is_integer()
    )
