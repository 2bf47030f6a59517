"""Read YAML and JSON documents so that every problem can be shown with file and line.

Stricter than plain YAML 1.1: duplicate keys are refused, dates stay text.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from planner.domain.errors import InputError, Issue, MissingDataError

TYPE_NAMES = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", int: "a whole number",
              float: "a number", type(None): "empty"}  # fmt: skip

PathKey = str | int


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed content of one file. `name` is what messages call it; `text` finds lines when something is wrong."""

    name: str
    text: str
    data: Any

    def where(self, path: Sequence[PathKey]) -> str:
        """``file:line @ $.path`` of a value; the line is that of its nearest parent when the key is absent."""
        line = _line_of(self.text, path)
        at = f"{self.name}:{line}" if line is not None else self.name
        return f"{at} @ {json_path(path)}"


def json_path(path: Sequence[PathKey]) -> str:
    """Return ``$.a[0].b`` for ``("a", 0, "b")``."""
    return "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)


def read_document(path: Path) -> Document:
    """Read and parse `path`; JSON when the content starts with ``{`` or ``[``, YAML otherwise.

    Raises MissingDataError ``file.not_found`` and InputError ``file.unreadable``, ``file.malformed`` or
    ``file.duplicate_key``, the last two with the line.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise MissingDataError(
            Issue(
                code="file.not_found",
                what=f"{path} does not exist",
                why="the file was asked for by name",
                fix="check the path",
                where=str(path),
            )
        ) from None
    except OSError as e:
        raise _unreadable(path, e.strerror or str(e)) from None
    except UnicodeDecodeError as e:
        raise _unreadable(path, f"byte {e.start} is not UTF-8") from None
    return parse_document(text, name=str(path))


def parse_document(text: str, *, name: str) -> Document:
    """Parse `text`; see `read_document` for formats and errors."""
    is_json = text.lstrip()[:1] in {"{", "["} and not name.endswith((".yaml", ".yml"))
    try:
        data = _parse_json(text) if is_json else yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - safe subclass
    except json.JSONDecodeError as e:
        raise _malformed(name, e.lineno, e.colno, e.msg) from None
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        problem = e.problem or e.context or "not valid YAML"
        if isinstance(e, _DuplicateKeyError):
            raise _duplicate(name, str(problem), mark.line + 1 if mark else None) from None
        raise _malformed(
            name, mark.line + 1 if mark else None, mark.column + 1 if mark else None, problem
        ) from None
    except yaml.YAMLError as e:
        raise _malformed(name, None, None, str(e).splitlines()[0]) from None
    except _JsonDuplicateError as e:
        raise _duplicate(name, e.key, _line_of_text(text, f'"{e.key}"')) from None
    except _JsonConstantError as e:
        raise _malformed(
            name, _line_of_text(text, e.constant), None, f"{e.constant} is not a number"
        ) from None
    except RecursionError:
        raise _malformed(name, None, None, "nested too deeply") from None
    except ValueError as e:  # out-of-range scalars such as a 5,000-digit integer
        raise _malformed(name, None, None, str(e)) from None
    if data is None:
        raise _malformed(name, 1, None, "the file is empty")
    return Document(name=name, text=text, data=data)


# --- parsing ---


class _DuplicateKeyError(yaml.MarkedYAMLError):
    """A mapping names one key twice."""


class _StrictLoader(yaml.CSafeLoader):
    """Safe loader that refuses duplicate keys and leaves dates as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class-level protocol
        first: [(tag, regex) for tag, regex in entries if tag != "tag:yaml.org,2002:timestamp"]
        for first, entries in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping after checking that no key repeats."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _DuplicateKeyError(None, None, key.value, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


class _JsonDuplicateError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _JsonConstantError(Exception):
    def __init__(self, constant: str) -> None:
        super().__init__(constant)
        self.constant = constant


def _parse_json(text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in pairs:
            if key in out:
                raise _JsonDuplicateError(key)
            out[key] = value
        return out

    def refuse(constant: str) -> None:
        raise _JsonConstantError(constant)

    return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)


# --- lines ---


def _line_of(text: str, path: Sequence[PathKey]) -> int | None:
    """1-based line of the value at `path`; JSON is read as YAML for this, its marks being good enough."""
    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    line: int | None = None
    for part in path:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                    child, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            child = node.value[part]
            line = child.start_mark.line + 1
        if child is None:
            break
        node = child
    if line is None and node is not None:
        return int(node.start_mark.line) + 1
    return line


def _line_of_text(text: str, needle: str) -> int | None:
    at = text.rfind(needle)
    return text.count("\n", 0, at) + 1 if at >= 0 else None


# --- issues ---


def _unreadable(path: Path, why: str) -> InputError:
    return InputError(
        Issue(
            code="file.unreadable",
            what=f"cannot read {path}",
            why=why,
            fix="name a readable UTF-8 text file",
            where=str(path),
        )
    )


def _malformed(name: str, line: int | None, column: int | None, problem: str) -> InputError:
    at = f"{name}:{line}" if line is not None else name
    return InputError(
        Issue(
            code="file.malformed",
            what=f"{name} is not valid YAML or JSON",
            why=problem + (f" (line {line}, column {column})" if column is not None else ""),
            fix=f"correct line {line}" if line is not None else "correct the file",
            where=f"{at} @ $",
        )
    )


def _duplicate(name: str, key: str, line: int | None) -> InputError:
    return InputError(
        Issue(
            code="file.duplicate_key",
            what=f"key '{key}' is given twice in one mapping",
            why="one of the two values would be ignored silently",
            fix="keep one of them",
            where=f"{name}:{line} @ $" if line is not None else name,
        )
    )
