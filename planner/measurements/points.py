"""Reading a measured-points CSV: one row is one configuration at one load, with what was measured there.

Columns are those of docs/measurements.md. Sources fill them differently: blanks, ``~400``, ``1000-2000``,
``6000 shared prefix + 500 question``; ``tp`` is the worker size in InferenceX rows with DP attention; rates are per
decode GPU in some rows and per GPU of the deployment in others. Everything is resolved here, once, into typed values.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from planner.domain.errors import InputError, Issue, did_you_mean
from planner.measurements.widths import Widths, resolve_widths

REQUIRED: Final = ("model", "gpu", "engine", "mode", "isl", "osl", "concurrency")
INFERENCEX_LENGTH_RATIO: Final = 0.9  # random lengths are uniform in 0.8 .. 1.0 of the nominal ones
INFERENCEX_LENGTH_CV: Final = 0.2 / 12.0**0.5 / 0.9
MAX_REPORTED_LINES: Final = 20


class PointMode(StrEnum):
    """What was measured: one shared pool, two roles, or one phase alone."""

    AGGREGATED = "agg"
    DISAGGREGATED = "disagg"
    PREFILL_ONLY = "prefill_only"
    DECODE_ONLY = "decode_only"


class Metric(StrEnum):
    """Measured and predicted quantities of a row; the values are the CSV's column names."""

    TTFT = "ttft_ms_p50"
    TPOT = "tpot_ms_p50"
    OUTPUT = "output_tok_s_per_gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointConfig:
    """Everything that decides the prediction except the offered load. Lengths are mean tokens per request."""

    model: str
    quantization: str
    gpu: str
    dialect: str
    mode: PointMode
    decode: Widths | None
    prefill: Widths | None
    isl: int
    osl: int
    length_cv: float
    prefix_hit: float
    mtp: bool
    draft_tokens: int | None
    dbo: bool
    eplb: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One priceable row. `measured` holds what the row reports; `load` is requests in flight, None when unbounded."""

    line: int
    id: str
    source: str
    config: PointConfig
    load: float | None
    request_rate: float | None
    date: dt.date | None
    output_denominator_gpus: int
    measured: Mapping[Metric, float]
    flags: tuple[str, ...] = ()
    doubtful: bool = False  # the source warns of possible errors without saying which rows have them

    @property
    def scored(self) -> bool:
        """Whether the row counts in accuracy figures: its own source calls neither it nor its configuration doubtful."""
        return not self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPoint:
    """A row that cannot be priced, and why."""

    line: int
    id: str
    code: str
    reason: str
    measured: Mapping[Metric, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsFile:
    """All rows of a file in order."""

    path: Path
    rows: tuple[Point | RefusedPoint, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """The rows that can be priced."""
        return tuple(r for r in self.rows if isinstance(r, Point))


# How sources spell what ran. `Dynamo` and `MoRI` are launchers around one of the engines.
_DIALECTS: Final = {
    "vllm": "vllm",
    "vllm-ascend": "vllm",
    "dynamo-vllm": "vllm",
    "sglang": "sglang",
    "dynamo-sglang": "sglang",
    "mori-sglang": "sglang",
    "trt": "trtllm",
    "trtllm": "trtllm",
    "trt-llm": "trtllm",
    "tensorrt-llm": "trtllm",
    "tensorrt-llm + dynamo": "trtllm",
    "dynamo-trt": "trtllm",
    "dynamo-trtllm": "trtllm",
    "atom": "atom",
}
_GPUS: Final = {
    "ascend 910b2c": "ascend-910b",
    "ascend 910b (a2)": "ascend-910b",
    "ascend 910b": "ascend-910b",
    "ascend 910c": "ascend-910c",
    "a100": "a100-80-sxm",
}


def read_points(path: Path) -> PointsFile:
    """Read a CSV of measured points.

    Raises `InputError` naming the lines when the file is not such a CSV: missing columns, rows with too few or too many
    fields. Rows that cannot be priced come back as refused, each with its reason, so that one bad row costs one row.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            header = [h.strip() for h in (reader.fieldnames or [])]
            _check_header(header, path)
            rows: list[Point | RefusedPoint] = []
            issues: list[Issue] = []
            for record in reader:
                line = reader.line_num
                if None in record or any(v is None for v in record.values()):
                    issues.append(
                        Issue(
                            code="points.columns",
                            what=f"line {line} does not have {len(header)} fields",
                            why="every row needs one field per column of the header",
                            fix="quote fields that contain commas, or remove the row",
                            where=f"{path}:{line}",
                        )
                    )
                    continue
                row = {k.strip(): v.strip() for k, v in record.items() if k is not None}
                rows.append(_row(row, line))
    except OSError as error:
        raise InputError(
            Issue(
                code="points.unreadable",
                what=f"cannot read {path}",
                why=error.strerror or str(error),
                fix="give the path of a CSV file",
            )
        ) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(
            Issue(
                code="points.malformed",
                what=f"{path} is not a readable CSV",
                why=str(error),
                fix="save it as UTF-8 CSV with a header line",
            )
        ) from error
    if issues:
        raise InputError(*issues[:MAX_REPORTED_LINES])
    if not rows:
        raise InputError(
            Issue(
                code="points.empty",
                what=f"{path} has no rows",
                why="there is nothing to price below the header",
                fix="add rows, or check that the right file is given",
            )
        )
    return PointsFile(path=path, rows=tuple(rows))


def _check_header(header: list[str], path: Path) -> None:
    missing = [c for c in (*REQUIRED, "decode_tp") if c not in header]
    if missing:
        raise InputError(
            *(
                Issue(
                    code="points.column_missing",
                    what=f"column '{name}' is missing",
                    why="a configuration cannot be priced without it",
                    fix=f"add the column; {did_you_mean(name, header)}" if header else "add a header line",
                    where=f"{path}:1",
                )
                for name in missing
            )
        )


def _row(row: Mapping[str, str], line: int) -> Point | RefusedPoint:
    identity = row.get("id") or f"line-{line}"
    measured = _measured(row)
    notes = row.get("notes", "")
    flags = tuple(f for f in ("CONFIG SUSPECT", "QC-FAIL") if f in notes)

    def refuse(code: str, reason: str) -> RefusedPoint:
        return RefusedPoint(line=line, id=identity, code=code, reason=reason, measured=measured, flags=flags)

    for name in ("isl", "osl", "concurrency", "total_gpus", "decode_tp", "decode_dp", "decode_ep"):
        value = row.get(name, "")
        if value and number(value) is None and not _prose(value):
            return refuse(
                "point.number", f"{name} is '{value[:40]}', not a positive number, a range or blank"
            )
    try:
        mode = PointMode(row.get("mode", ""))
    except ValueError:
        if row.get("mode"):
            known = ", ".join(m.value for m in PointMode)
            return refuse("point.mode", f"mode '{row['mode']}' is none of {known}")
        return refuse("point.mode", "the row does not say whether one pool or two roles were measured")
    dialect = _DIALECTS.get(row.get("engine", "").lower().split(" + ")[0].strip())
    dialect = dialect or _DIALECTS.get(row.get("engine", "").lower())
    if dialect is None:
        dialect = next((d for k, d in _DIALECTS.items() if k in row.get("engine", "").lower()), None)
    if dialect is None:
        return refuse(
            "point.engine", f"engine '{row.get('engine', '')}' is none of vLLM, SGLang, TensorRT-LLM"
        )
    isl, hit = _prompt(row)
    osl = number(row.get("osl", ""))
    if mode is PointMode.PREFILL_ONLY and osl is None:
        osl = 1.0
    if isl is None or osl is None or isl < 1 or osl < 1:
        return refuse("point.lengths", "prompt and output lengths are needed; the row leaves one open")
    widths = resolve_widths(row, mode.value)
    if widths is None:
        return refuse("point.widths", "the widths of the engine groups are not all stated, or do not add up")
    load, rate = number(row.get("concurrency", "")), number(row.get("request_rate", ""))
    if load is None and rate is None and mode is not PointMode.PREFILL_ONLY:
        return refuse("point.load", "neither a concurrency nor a request rate is stated")
    scaled = "InferenceX" in row.get("source", "") and isl >= 256
    ratio = INFERENCEX_LENGTH_RATIO if scaled else 1.0
    mtp, drafts = _speculation(row.get("mtp", ""))
    config = PointConfig(
        model=row.get("model", ""),
        quantization=row.get("quantization", "").lower(),
        gpu=_GPUS.get(row.get("gpu", "").lower(), row.get("gpu", "").lower()),
        dialect=dialect,
        mode=mode,
        decode=widths.decode,
        prefill=widths.prefill,
        isl=max(round(isl * ratio), 1),
        osl=max(round(osl * ratio), 1),
        length_cv=INFERENCEX_LENGTH_CV if scaled else 0.0,
        prefix_hit=hit,
        mtp=mtp,
        draft_tokens=drafts,
        dbo=row.get("dbo", "").lower() == "on",
        eplb=row.get("eplb", "").lower() not in {"", "unknown", "off"},
    )
    denominator = widths.total
    if mode is PointMode.DISAGGREGATED and widths.decode is not None and _per_decode_gpu(row):
        denominator = widths.decode.gpus
    return Point(
        line=line, id=identity, source=row.get("source", ""), config=config, load=load, request_rate=rate,
        date=_date(row), output_denominator_gpus=denominator, measured=measured, flags=flags,
        doubtful="warns of possible errors" in notes,
    )  # fmt: skip


def _per_decode_gpu(row: Mapping[str, str]) -> bool:
    if "per DECODE GPU" in row.get("notes", ""):
        return True
    return row.get("source", "").startswith("InferenceX")


def _measured(row: Mapping[str, str]) -> dict[Metric, float]:
    ttft = number(row.get("ttft_ms_p50", "")) or number(row.get("ttft_ms_mean", ""))
    tpot = number(row.get("tpot_ms_p50", "")) or number(row.get("tpot_ms_mean", ""))
    user = number(row.get("tok_s_user", ""))
    if tpot is None and user:
        tpot = 1000.0 / user
    output = number(row.get("output_tok_s_per_gpu", ""))
    values = {Metric.TTFT: ttft, Metric.TPOT: tpot, Metric.OUTPUT: output}
    return {metric: value for metric, value in values.items() if value}


def _prompt(row: Mapping[str, str]) -> tuple[float | None, float]:
    """Prompt tokens and the share of them found in the prefix cache."""
    text = row.get("isl", "")
    shared = re.search(r"(\d+) shared prefix \+ (\d+)", text)
    cached = row.get("prefix_hit_or_shared_tokens", "")
    if shared is not None:
        prefix, question = float(shared[1]), float(shared[2])
        return prefix + question, prefix / (prefix + question)
    isl = number(text)
    share = re.search(r"([\d.]+)\s*%", cached)
    if share is not None:
        return isl, min(float(share[1]) / 100.0, 0.99)
    tokens = number(cached)
    if tokens and isl:
        return isl, min(tokens / isl, 0.99)
    return isl, 0.0


def _speculation(text: str) -> tuple[bool, int | None]:
    lowered = text.lower()
    if lowered.startswith(("on", "simulated")):
        count = re.search(r"\((\d+)", lowered)
        return True, int(count[1]) if count and int(count[1]) < 16 else None
    return False, None


def _date(row: Mapping[str, str]) -> dt.date | None:
    for text in (row.get("date", ""), row.get("source", ""), row.get("id", "").replace("_", "-")):
        found = re.search(r"(20\d\d)-(\d\d)(?:-(\d\d))?", text)
        if found is not None:
            try:
                return dt.date(int(found[1]), int(found[2]), int(found[3] or 15))
            except ValueError:
                continue
    return None


def _prose(text: str) -> bool:
    return bool(re.search(r"[a-z]{3,}", text.lower())) and any(c.isdigit() for c in text)


def number(text: str) -> float | None:
    """A positive number; ranges give their middle, ``~`` is dropped, ``inf`` and blanks give None."""
    cleaned = text.strip().lower().replace(",", "").lstrip("~<>=≈ ")
    if not cleaned or cleaned in {"inf", "infinity", "unknown", "none", "nan", "-"}:
        return None
    span = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:-|–|to)\s*(\d+(?:\.\d+)?)", cleaned)
    if span is not None:
        return (float(span[1]) + float(span[2])) / 2.0
    plain = re.fullmatch(r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(k)?", cleaned)
    if plain is None:
        return None
    value = float(plain[1]) * (1000.0 if plain[2] else 1.0)
    return value if 0.0 < value < math.inf else None
