"""Reading single values out of foreign files: numbers, switches, versions, statistics. Absent or odd gives None."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from planner.domain.engine import EngineName
from planner.domain.measurement import Latency

Json = Any  # parsed JSON, YAML or a CSV row of another tool; narrowed by the functions below

_ABSURD: Final = 1e15  # no count, rate or time of a benchmark is larger
_BLANK: Final = {"", "-", "--", "n/a", "na", "none", "null", "unknown", "unlimited", "not stated", "?"}
_unreadable: ContextVar[list[str] | None] = ContextVar("unreadable numbers", default=None)
_TRUE: Final = {"true", "yes", "on", "1", "enabled"}
_FALSE: Final = {"false", "no", "off", "0", "disabled", "none"}

# how the tools spell the engines; wrappers (Dynamo, llm-d) run one of the three
_ENGINES: Final[Mapping[str, EngineName]] = {
    "vllm": EngineName.VLLM,
    "llm-d": EngineName.VLLM,
    "vllm + llm-d": EngineName.VLLM,
    "vllm-ascend": EngineName.VLLM,
    "dynamo-vllm": EngineName.VLLM,
    "sglang": EngineName.SGLANG,
    "dynamo-sglang": EngineName.SGLANG,
    "mori-sglang": EngineName.SGLANG,
    "trt": EngineName.TRTLLM,
    "trtllm": EngineName.TRTLLM,
    "tensorrt-llm": EngineName.TRTLLM,
    "dynamo-trt": EngineName.TRTLLM,
    "dynamo-trtllm": EngineName.TRTLLM,
}
ENGINE_NAMES: Final = tuple(_ENGINES)


# InferenceX draws lengths evenly from 0.8 to 1.0 of the nominal ones; a measurement keeps the mean that was sent
_RANDOM_LOW: Final = 0.8
RANDOM_MEAN: Final = (1.0 + _RANDOM_LOW) / 2.0
RANDOM_CV: Final = (1.0 - _RANDOM_LOW) / math.sqrt(12.0) / RANDOM_MEAN


def mean_of_nominal(tokens: int | None) -> int | None:
    """Mean length of an InferenceX workload with this nominal length."""
    return None if tokens is None else max(round(tokens * RANDOM_MEAN), 1)


def at(document: Json, path: str) -> Json:
    """Value at a dotted path through mappings; None when any part is missing."""
    for part in path.split("."):
        if not isinstance(document, Mapping) or part not in document:
            return None
        document = document[part]
    return document


def section(document: Json, path: str) -> Mapping[str, Json]:
    """Mapping at a dotted path; empty when there is none."""
    found = at(document, path)
    return found if isinstance(found, Mapping) else {}


def items(document: Json, path: str) -> list[Json]:
    """List at a dotted path; empty when there is none."""
    found = at(document, path)
    return found if isinstance(found, list) else []


def first(document: Json, *paths: str) -> Json:
    """The first value that is present and not empty."""
    for path in paths:
        value = at(document, path)
        if value is not None and value != "":
            return value
    return None


@contextmanager
def unreadable_numbers() -> Iterator[list[str]]:
    """Collects, while it is open, every text that stood where `number` wanted a number and is neither one nor a blank."""
    found: list[str] = []
    token = _unreadable.set(found)
    try:
        yield found
    finally:
        _unreadable.reset(token)


def number(value: Json) -> float | None:
    """A finite float from a number or numeric text; None for anything else, booleans included.

    Text that means something else is reported to `unreadable_numbers`.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value.strip())
        except ValueError:
            found = _unreadable.get()
            if found is not None and value.strip().lower() not in _BLANK:
                found.append(value)
            return None
    if isinstance(value, int | float) and abs(value) < _ABSURD:  # NaN compares false
        return float(value)
    return None


def integer(value: Json) -> int | None:
    """A whole number; None for fractions and anything else."""
    x = number(value)
    return int(x) if x is not None and x == int(x) else None


def rounded(value: Json) -> int | None:
    """A mean token count as the nearest whole number."""
    x = number(value)
    return round(x) if x is not None and x >= 0 else None


def positive(value: Json) -> float | None:
    """A finite number above zero."""
    x = number(value)
    return x if x is not None and x > 0 else None


def switch(value: Json) -> bool | None:
    """A switch from a boolean or its usual spellings; note that the text ``"false"`` is off."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower() if value is not None else ""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def text(value: Json) -> str | None:
    """Non-empty text."""
    if value is None or isinstance(value, bool | list | dict):
        return None
    return str(value).strip() or None


def engine(value: Json) -> EngineName | None:
    """Engine from the spelling of a tool or a container image."""
    name = text(value)
    if name is None:
        return None
    lowered = name.lower()
    if lowered in _ENGINES:
        return _ENGINES[lowered]
    image = lowered.rsplit("/", 1)[-1].split(":", 1)[0]
    for needle, found in (
        ("vllm", EngineName.VLLM),
        ("llm-d", EngineName.VLLM),
        ("sglang", EngineName.SGLANG),
        ("tensorrt", EngineName.TRTLLM),
        ("trtllm", EngineName.TRTLLM),
    ):
        if "/" in lowered or ":" in lowered:
            if needle in image or needle in lowered:
                return found
        elif re.fullmatch(rf"{needle}[-_ ]?v?[\d.]+.*", lowered):
            return found
    return None


def version_from_image(image: Json) -> str | None:
    """Engine version from a container image.

    ``vllm/vllm-openai:v0.21.0`` is ``0.21.0``. Images of wrappers are numbered by the wrapper, not by the engine:
    they keep their name, as in ``llm-d-cuda:0.3.1``, so that two of them are never taken for engine versions.
    """
    name = text(image)
    if name is None:
        return None
    base, _, tag = name.rsplit("/", 1)[-1].partition(":")
    if not tag or tag == "latest":
        return None
    if base.startswith(("vllm-openai", "sglang")) or base == "vllm":
        return re.sub(r"^v(?=\d)", "", tag)
    return f"{base}:{tag}"


def statistics(
    source: Json,
    *,
    to_ms: float,
    mean: str = "mean",
    p50: tuple[str, ...] = ("p50", "median"),
    std: tuple[str, ...] = ("std", "stddev", "std_dev"),
) -> Latency:
    """Latency from a mapping of statistics; `to_ms` converts the source's unit. Percentiles may be nested."""
    nested = at(source, "percentiles")

    def ms(*names: str) -> float | None:
        for name in names:
            for place in (source, nested):
                value = number(place.get(name)) if isinstance(place, Mapping) else None
                if value is not None:
                    return value * to_ms
        return None

    return Latency(
        mean_ms=ms(mean),
        p50_ms=ms(*p50),
        p90_ms=ms("p90"),
        p95_ms=ms("p95"),
        p99_ms=ms("p99"),
        std_ms=ms(*std),
    )


def suffixed(source: Mapping[str, Json], suffix: str, *, to_ms: float) -> Latency:
    """Latency from flat keys such as ``mean_ttft_ms``, ``median_ttft_ms``, ``p99_ttft_ms``."""

    def ms(*prefixes: str) -> float | None:
        for prefix in prefixes:
            value = number(source.get(f"{prefix}_{suffix}"))
            if value is not None:
                return value * to_ms
        return None

    return Latency(
        mean_ms=ms("mean"),
        p50_ms=ms("median", "p50"),
        p90_ms=ms("p90"),
        p95_ms=ms("p95"),
        p99_ms=ms("p99"),
        std_ms=ms("std"),
    )


_TO_MS: Final[Mapping[str, float]] = {
    "ns": 1e-6,
    "us": 1e-3,
    "µs": 1e-3,
    "ms": 1.0,
    "s": 1e3,
    "sec": 1e3,
    "second": 1e3,
    "seconds": 1e3,
    "milliseconds": 1.0,
}


def unit_to_ms(unit: Json) -> float | None:
    """Milliseconds per unit, for ``ms``, ``s``, ``us``, ``ns`` and their ``/token`` forms; None when not a time."""
    name = text(unit)
    return _TO_MS.get(name.lower().removesuffix("/token")) if name else None
