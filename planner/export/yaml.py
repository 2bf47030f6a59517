"""The only YAML emitter and reader of the program.

Strings that YAML 1.1 or YAML 1.2 would read as something else are quoted (``y``, ``1e3``, ``08``, ``12e4567``): kubectl
reads 1.1 booleans and 1.2 numbers, so neither rule set alone is enough. Key order is the order given; no aliases, no tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from planner.domain.errors import InputError, Issue

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"

_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "", "=", "<<"})
# Anything built only from the characters of numbers, times and dates of either version is quoted: cheaper to be
# over-careful than to follow two grammars.
_NUMBER_LIKE = re.compile(r"[-+]?[.0-9][-+.0-9a-fA-FxXoOeE_:tTzZ ]*|[-+]?\.(inf|nan)", re.IGNORECASE)


def needs_quotes(text: str) -> bool:
    """Whether some YAML version reads the plain scalar `text` as something other than a string."""
    return text.lower() in _WORDS or _NUMBER_LIKE.fullmatch(text) is not None


class _Dumper(yaml.SafeDumper):
    """Safe dumper: quotes ambiguous strings, writes blocks for several lines, indents list items."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow=flow, indentless=False)


# Characters that YAML versions treat as line breaks or refuse outright: only escapes carry them safely.
_ESCAPED = re.compile(
    r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _ESCAPED.search(text):
        style = '"'
    elif "\n" in text:
        style = '"' if re.search(r" \n| $|^\s", text) else "|"
    elif needs_quotes(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_str)


def dump_document(value: Plain) -> str:
    """One YAML document without a leading marker, ending in a newline."""
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True, default_flow_style=False
    )


def comment_lines(lines: Iterable[str]) -> str:
    """`lines` as YAML comments; a line break inside one starts a new comment line."""
    return "".join(f"# {part}".rstrip() + "\n" for line in lines for part in (line.splitlines() or [""]))


def dump_stream(documents: Sequence[tuple[Sequence[str], Plain]], *, header: Sequence[str] = ()) -> str:
    """A multi-document stream. Each document comes with its own comment lines; `header` opens the stream."""
    parts = [comment_lines(header)]
    for comments, value in documents:
        parts.append("---\n" + comment_lines(comments) + dump_document(value))
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Document:
    """One document read from a stream: where it stood and what it held."""

    source: str
    index: int
    line: int
    value: Mapping[str, object]


_BaseLoader: type[yaml.SafeLoader] = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # libyaml, ten times faster


class _Loader(_BaseLoader):  # type: ignore[misc, valid-type]
    """Safe loader that refuses duplicate keys, as the API server does under strict validation."""


def _construct_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[object, object]:
    loader.flatten_mapping(node)
    out: dict[object, object] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int | float | bool) or key in out:
            problem = f"duplicate key {key!r}" if isinstance(key, str) else f"key {key!r} is not a string"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        out[key] = loader.construct_object(value_node, deep=True)
    return out


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


def _construct_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


# Timestamps stay text: Kubernetes has no date type in JSON.
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _construct_text)


def load_stream(text: str, *, source: str) -> tuple[Document, ...]:
    """Read all documents of `text`; empty ones are skipped and ``kind: List`` is opened.

    Raises InputError ``yaml.malformed`` with the line, or ``yaml.not_an_object``.
    """
    return tuple(_load(text, source))


def _load(text: str, source: str) -> Iterator[Document]:
    try:
        loader = _Loader(text)
        try:
            index = 0
            while loader.check_node():
                node = loader.get_node()
                value = loader.construct_document(node) if node is not None else None
                if node is None or value is None:
                    continue
                line = node.start_mark.line + 1
                if not isinstance(value, dict):
                    raise InputError(
                        Issue(
                            code="yaml.not_an_object",
                            what=f"document {index + 1} is a {type(value).__name__}, not a mapping",
                            why="every Kubernetes object is a mapping with apiVersion and kind",
                            fix="remove the document or write it as an object",
                            where=f"{source}:{line}",
                        )
                    )
                items = value.get("items") if str(value.get("kind", "")).endswith("List") else None
                for item in items if isinstance(items, list) else [value]:
                    if isinstance(item, dict):
                        yield Document(source, index, line, item)
                        index += 1
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise InputError(
            Issue(
                code="yaml.malformed",
                what=f"not readable as YAML: {error.problem}",
                why="nothing after the first syntax error can be trusted",
                fix="mend the line named here",
                where=f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source,
            )
        ) from error
    except yaml.reader.ReaderError as error:
        raise InputError(
            Issue(
                code="yaml.malformed",
                what=f"not readable as YAML: {error.reason}",
                why="the file holds a character that YAML does not allow",
                fix="save it as UTF-8 text",
                where=f"{source} at byte {error.position}",
            )
        ) from error
