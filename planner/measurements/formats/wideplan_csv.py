"""Our own CSV: one row per operating point (columns in docs/measurements.md).

Traps: ``*_tp`` is the worker size in rows taken from InferenceX with DP attention, so the GPU counts decide which reading
holds; output rates may be per decode GPU and input rates per prefill GPU, which the total decides; lengths of InferenceX rows
are nominal; blank means unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import product

from planner.domain.deployment import Role
from planner.domain.errors import Issue
from planner.domain.measurement import BenchmarkFormat, Latency, MeasuredLoad, MeasurementFlag
from planner.measurements.documents import Document, Kind
from planner.measurements.draft import Draft, RoleDraft, Totals
from planner.measurements.formats.checked import checked
from planner.measurements.values import RANDOM_CV, Json, integer, mean_of_nominal, positive, switch, text

_REQUIRED = {"model", "gpu", "mode", "decode_tp", "isl", "osl", "concurrency", "output_tok_s_per_gpu"}
_TOLERANCE = 0.02  # sources round rates to three or four digits
_NOTE_FLAGS = (
    ("CONFIG SUSPECT", MeasurementFlag.SUSPECT_CONFIGURATION),
    ("QC-FAIL", MeasurementFlag.QUALITY_CHECK_FAILED),
    ("percentile not stated", MeasurementFlag.PERCENTILE_ASSUMED),
)
_RANDOM_FROM = 256  # tokens
_SINGLE_PHASE = {"prefill_only": Role.PREFILL, "decode_only": Role.DECODE}


class WideplanCsvImporter:
    """Tables with one operating point per row."""

    format = BenchmarkFormat.WIDEPLAN_CSV

    def matches(self, document: Document) -> bool:
        """A CSV that has our columns."""
        return document.kind is Kind.CSV and bool(document.value) and set(document.value[0]) >= _REQUIRED

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft per row."""
        return tuple(_draft(row, position) for position, row in document.runs())


@checked
def _draft(row: Mapping[str, Json], position: str) -> Draft:
    roles, issues = _roles(row)
    totals, inferred = _totals(row, roles)
    notes = text(row.get("notes")) or ""
    flags = [flag for needle, flag in _NOTE_FLAGS if needle in notes]
    if row.get("mode") in _SINGLE_PHASE:
        flags.append(MeasurementFlag.SINGLE_PHASE)
    if inferred:
        flags.append(MeasurementFlag.DENOMINATOR_INFERRED)
    tpot = _latency(row, "tpot")
    user_rate = positive(row.get("tok_s_user"))
    if not tpot.known and user_rate is not None:
        tpot = Latency(p50_ms=1000.0 / user_rate)
        flags.append(MeasurementFlag.TPOT_FROM_RATE)
    mtp, draft_tokens = _speculation(row.get("mtp"))
    isl, osl = integer(row.get("isl")), integer(row.get("osl"))
    nominal = "InferenceX" in str(row.get("source") or "")  # a few hand-written rows of it have fixed lengths
    if nominal and isl is not None and isl >= _RANDOM_FROM:
        isl, osl = mean_of_nominal(isl), mean_of_nominal(osl)
    else:
        nominal = False
    return Draft(
        position=" ".join(x for x in (position, text(row.get("id"))) if x),
        model=text(row.get("model")),
        gpu=text(row.get("gpu")),
        engine=text(row.get("engine")),
        engine_version=_version(row.get("engine_version")),
        roles=roles,
        isl=isl,
        osl=osl,
        length_cv=RANDOM_CV if nominal else 0.0,
        prefix_hit=_prefix_hit(row.get("prefix_hit_or_shared_tokens"), integer(row.get("isl"))),
        load=_load(row),
        dbo=switch(row.get("dbo")),
        eplb=switch(row.get("eplb")),
        mtp=mtp,
        draft_tokens=draft_tokens,
        quantization=text(row.get("quantization")),
        totals=totals,
        ttft=_latency(row, "ttft"),
        tpot=tpot,
        measured_at=_date(row.get("date")),
        flags=tuple(flags),
        note="; ".join(x for x in (text(row.get("source")), notes) if x),
        issues=issues,
    )


def _latency(row: Mapping[str, Json], name: str) -> Latency:
    return Latency(
        mean_ms=positive(row.get(f"{name}_ms_mean")),
        p50_ms=positive(row.get(f"{name}_ms_p50")),
        p99_ms=positive(row.get(f"{name}_ms_p99")),
    )


# --- widths ---


def _roles(row: Mapping[str, Json]) -> tuple[tuple[RoleDraft, ...], tuple[Issue, ...]]:
    """Roles whose GPUs add up to the stated total, trying both readings of ``tp``."""
    mode = row.get("mode")
    wanted: tuple[tuple[str, Role], ...]
    if mode == "disagg":
        wanted = (("prefill", Role.PREFILL), ("decode", Role.DECODE))
    elif mode == "prefill_only":
        wanted = (("prefill", Role.PREFILL),)
    elif mode == "decode_only":
        wanted = (("decode", Role.DECODE),)
    else:
        wanted = (("decode", Role.AGGREGATED),)  # the decode columns also describe a single pool
    readings = [_readings(row, prefix, role) for prefix, role in wanted]
    if not all(readings):
        return (), ()
    total = integer(row.get("total_gpus"))
    if total is None:
        return tuple(r[0] for r in readings), ()
    for combination in product(*readings):
        if sum(r.gpus for r in combination) == total:
            return combination, ()
    described = " + ".join(f"{r[0].groups} x tp{r[0].tp} x dp{r[0].dp}" for r in readings)
    return (), (
        Issue(
            code="measurement.gpus_inconsistent",
            what=f"total_gpus is {total}, but the widths give {described}",
            why="rates are stored per GPU, so the GPU count must be certain",
            fix="correct the row, or state the widths with --prefill, --decode or --aggregated and --override",
        ),
    )


def _readings(row: Mapping[str, Json], prefix: str, role: Role) -> list[RoleDraft]:
    tp, dp, ep = (integer(row.get(f"{prefix}_{x}")) for x in ("tp", "dp", "ep"))
    groups = integer(row.get(f"{prefix}_workers")) or 1
    if tp is None or (ep is None and tp * (dp or 1) > 1):
        return []
    dp, ep = dp or 1, ep or 1
    readings = [RoleDraft(role=role, groups=groups, tp=tp, dp=dp, ep=ep)]
    if dp > 1 and tp % dp == 0:  # tp is the worker size
        readings.append(RoleDraft(role=role, groups=groups, tp=tp // dp, dp=dp, ep=ep))
    return readings


# --- rates ---


def _totals(row: Mapping[str, Json], roles: tuple[RoleDraft, ...]) -> tuple[Totals, bool]:
    """Rates of the whole deployment, and whether the denominator had to be inferred."""
    output, given_input = positive(row.get("output_tok_s_per_gpu")), positive(row.get("input_tok_s_per_gpu"))
    total = positive(row.get("total_tok_s"))
    if not roles:
        return Totals(), False
    everything = sum(r.gpus for r in roles)
    by_role = {r.role: r.gpus for r in roles}
    decode, prefill = by_role.get(Role.DECODE, everything), by_role.get(Role.PREFILL, everything)
    notes = str(row.get("notes") or "")
    inferred = False
    if "per DECODE GPU" in notes or len(roles) == 1:
        per_role = True
    elif output and given_input and total:
        as_role = abs(output * decode + given_input * prefill - total)
        as_whole = abs((output + given_input) * everything - total)
        per_role = as_role <= as_whole
        inferred = min(as_role, as_whole) > _TOLERANCE * total
    else:
        per_role = str(row.get("source") or "").startswith("InferenceX")
        inferred = output is not None or given_input is not None
    output_gpus, input_gpus = (decode, prefill) if per_role else (everything, everything)
    return (
        Totals(
            output_tok_s=None if output is None else output * output_gpus,
            input_tok_s=None if given_input is None else given_input * input_gpus,
            total_tok_s=total,
        ),
        inferred,
    )


# --- single columns ---


def _load(row: Mapping[str, Json]) -> MeasuredLoad | None:
    concurrency = positive(row.get("concurrency"))
    rate = positive(row.get("request_rate"))
    if concurrency is None and rate is None:
        return None
    return MeasuredLoad(
        concurrency=concurrency, request_rate_per_s=rate, turns=integer(row.get("turns")) or 1
    )


def _prefix_hit(value: Json, isl: int | None) -> float:
    """A share such as ``92.2% hit``, or a number of shared tokens; 0 when blank (no reuse)."""
    share = re.search(r"([\d.]+)\s*%", str(value or ""))
    if share is not None:
        return min(float(share[1]) / 100.0, 1.0)
    shared = positive(value)
    return min(shared / isl, 1.0) if shared is not None and isl else 0.0


def _speculation(value: Json) -> tuple[bool | None, int | None]:
    name = (text(value) or "").lower()
    if name.startswith("off"):
        return False, None
    if not name.startswith("on"):
        return None, None  # blank, or a simulated acceptance
    tokens = re.search(r"\((\d+)", name)
    return True, int(tokens[1]) if tokens else None


def _version(value: Json) -> str | None:
    """``sglang:v0.5.12-rocm700`` and ``v0.5.12`` lose what is not the version; wrappers keep their name."""
    name = text(value)
    if name is None:
        return None
    return re.sub(r"^(?:(?:vllm-openai|vllm|sglang):)?v?(?=\d)", "", name)


def _date(value: Json) -> datetime | None:
    name = text(value)
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        try:
            return datetime.strptime(name or "", form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
