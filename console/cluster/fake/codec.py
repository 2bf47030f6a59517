"""Request bodies: JSON and YAML 1.1, with duplicate keys found."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from console.cluster.fake.status import StatusError, bad_request

ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
PATCHES = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"


def unsupported_media(accepted: str) -> StatusError:
    """415."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {accepted}",
    )


class _Pairs(dict[str, Any]):
    """A JSON object that remembers keys it saw twice."""

    repeated: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    out = _Pairs(pairs)
    seen: set[str] = set()
    repeated = []
    for key, _ in pairs:
        if key in seen:
            repeated.append(key)
        seen.add(key)
    out.repeated = tuple(repeated)
    return out


def load_json(text: str) -> tuple[Any, list[str]]:
    """A JSON value and the paths of duplicate keys. Raises ValueError."""
    value = json.loads(text, object_pairs_hook=_pairs)
    repeated = _repeated(value)
    return (json.loads(text) if repeated else _plain(value)), repeated


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _repeated(value: Any, path: str = "") -> list[str]:
    out: list[str] = []
    if isinstance(value, dict):
        out += [f"{path}.{key}" if path else key for key in getattr(value, "repeated", ())]
        for key, item in value.items():
            out += _repeated(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            out += _repeated(item, f"{path}[{i}]")
    return out


class _Loader(yaml.CSafeLoader):
    """Times stay text, as JSON has none."""


_Loader.yaml_implicit_resolvers = {
    k: [(tag, rx) for tag, rx in v if tag != "tag:yaml.org,2002:timestamp"]
    for k, v in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


# Kubernetes reads YAML 1.1 in full: a bare y or n is a boolean, which PyYAML leaves as text.
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))


def _boolean(loader: Any, node: yaml.ScalarNode) -> bool:
    return str(loader.construct_scalar(node)).lower() in ("y", "yes", "true", "on")


_Loader.add_constructor("tag:yaml.org,2002:bool", _boolean)


class _YamlPairs(_Loader):
    repeated: list[tuple[str, int]]


def _mapping(loader: _YamlPairs, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key_node, _ in node.value:
        key = key_node.value
        if key in seen:
            loader.repeated.append((key, key_node.start_mark.line + 1))
        seen.add(key)
    return {
        loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value
    }


_YamlPairs.add_constructor("tag:yaml.org,2002:map", _mapping)


def load_yaml(text: str) -> tuple[Any, list[tuple[str, int]]]:
    """A YAML value, and duplicate keys with their lines. Raises the server's 400."""
    loader = _YamlPairs(text)
    loader.repeated = []
    try:
        value = loader.get_single_data()
    except yaml.YAMLError as error:
        raise bad_request(
            f"error decoding YAML: error converting YAML to JSON: yaml: {_shown(error)}"
        ) from None
    finally:
        loader.dispose()
    return value, loader.repeated


def _shown(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1 if mark else 1}: {getattr(error, 'problem', error)}"


def dump_yaml(value: Any) -> str:
    """YAML of an answer."""
    return yaml.dump(value, Dumper=yaml.CSafeDumper, default_flow_style=False, allow_unicode=True)
