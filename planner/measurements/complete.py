"""From a draft to a measurement: names resolved, what the user supplied filled in, everything missing asked for at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from planner.domain.deployment import Role, Strategy
from planner.domain.errors import Issue, did_you_mean
from planner.domain.measurement import (
    MeasuredLoad,
    MeasuredResult,
    MeasuredRole,
    MeasuredSettings,
    Measurement,
    MeasurementFlag,
    MeasurementOrigin,
)
from planner.domain.workload import Workload
from planner.measurements.draft import Draft, RoleDraft, Supplied
from planner.measurements.values import ENGINE_NAMES, engine

_ROLE_ORDER: Final = (Role.PREFILL, Role.DECODE, Role.AGGREGATED)

# field of Supplied -> what to say when neither the file nor the user states it; the order is that of the messages
_MISSING: Final[Mapping[str, Issue]] = {
    "model": Issue(
        code="measurement.missing_model",
        what="the model is not in the file",
        why="a measurement can only be compared with predictions for the same model",
        fix="add --model, e.g. --model deepseek-ai/DeepSeek-R1-0528",
    ),
    "gpu": Issue(
        code="measurement.missing_gpu",
        what="the GPU type is not in the file",
        why="rates and times depend on the GPU",
        fix="add --gpu, e.g. --gpu H200",
    ),
    "engine": Issue(
        code="measurement.missing_engine",
        what="the engine is not in the file",
        why="the file does not say what answered the requests",
        fix="add --engine, e.g. --engine vllm",
    ),
    "engine_version": Issue(
        code="measurement.missing_engine_version",
        what="the engine version is not in the file",
        why="engine age dominates small effects; results are never pooled across versions",
        fix="add --engine-version, e.g. --engine-version 0.33.0",
    ),
    "roles": Issue(
        code="measurement.missing_roles",
        what="the widths are not in the file",
        why="rates are stored per GPU and need the widths and the number of engine groups",
        fix='add --aggregated "1x(tp1,dp8,ep8)", or --prefill "2x(tp1,dp8,ep8)" --decode "1x(tp1,dp16,ep16)"',
    ),
    "isl": Issue(
        code="measurement.missing_isl",
        what="the prompt length is not in the file",
        why="it decides prefill time and KV size",
        fix="add --isl, e.g. --isl 8192",
    ),
    "osl": Issue(
        code="measurement.missing_osl",
        what="the output length is not in the file",
        why="it decides how long a request decodes",
        fix="add --osl, e.g. --osl 1024",
    ),
    "load": Issue(
        code="measurement.missing_load",
        what="the load is not in the file",
        why="it decides the batch",
        fix="add --concurrency or --request-rate, e.g. --concurrency 256",
    ),
}
# what an importer may find wrong about the widths; stating them settles it
_ABOUT_WIDTHS: Final = {"measurement.gpus_inconsistent", "measurement.pipeline_parallel"}
# settings where a file and a flag may disagree
_OVERRIDABLE: Final = (*_MISSING, "dbo", "eplb", "mtp", "draft_tokens", "quantization")


class Names(Protocol):
    """Canonical names of models and GPUs; unknown names come back as they are."""

    def model(self, name: str) -> str:
        """Catalogue id of a model name."""
        ...

    def gpu(self, name: str) -> str:
        """Catalogue id of a GPU name."""
        ...

    def unknown_gpu(self, name: str) -> Issue | None:
        """Why a GPU name is refused; None when it may be recorded."""
        ...


class AsWritten:
    """Names kept as they are."""

    def model(self, name: str) -> str:
        """The name itself."""
        return name

    def gpu(self, name: str) -> str:
        """The name itself."""
        return name

    def unknown_gpu(self, name: str) -> Issue | None:
        """Every name may be recorded."""
        del name
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A measurement, or everything that keeps the run from being one."""

    measurement: Measurement | None
    issues: tuple[Issue, ...] = ()


def complete(draft: Draft, supplied: Supplied, *, names: Names, origin: MeasurementOrigin) -> Completed:
    """Turn a draft into a measurement.

    Issues: ``measurement.missing_<field>``, ``measurement.conflict``, ``gpu.unknown``, ``engine.unknown``,
    ``measurement.no_result`` and whatever the importer found. `origin` is completed with the position, date and what was supplied.
    """
    merged, used, conflicts = _merge(draft, supplied, names)
    stated_widths = "roles" in used and supplied.override
    found = [i for i in draft.issues if not (stated_widths and i.code in _ABOUT_WIDTHS)]
    about_widths = any(i.code in _ABOUT_WIDTHS for i in found)
    missing = [n for n in _MISSING if _absent(getattr(merged, n)) and not (n == "roles" and about_widths)]
    issues = [*found, *conflicts, *(_MISSING[n] for n in missing), *_unknown_gpus(merged, names, used)]
    engine_name = engine(merged.engine)
    if merged.engine is not None and engine_name is None:
        issues.append(_unknown_engine(merged.engine))
    if not any(
        (
            merged.totals.output_tok_s,
            merged.totals.input_tok_s,
            merged.totals.total_tok_s,
            merged.ttft.known,
            merged.tpot.known,
        )
    ):
        issues.append(_no_result())
    issues += _implausible(merged)
    if issues or engine_name is None:
        return Completed(measurement=None, issues=tuple(issues))
    workload = Workload(
        isl=merged.isl or 0, osl=merged.osl or 0, prefix_hit=merged.prefix_hit, length_cv=merged.length_cv
    )
    roles = _roles(merged, names, one_gpu="gpu" in used)
    measurement = Measurement(
        model=names.model(merged.model or ""),
        strategy=(
            Strategy.AGGREGATED if any(r.role is Role.AGGREGATED for r in roles) else Strategy.DISAGGREGATED
        ),
        roles=roles,
        engine=engine_name,
        engine_version=merged.engine_version or "",
        workload=workload,
        load=merged.load or MeasuredLoad(),
        settings=MeasuredSettings(
            dbo=merged.dbo,
            eplb=merged.eplb,
            mtp=merged.mtp,
            draft_tokens=merged.draft_tokens,
            acceptance_length=merged.acceptance_length,
            quantization=merged.quantization,
        ),
        result=_result(merged, sum(r.gpus for r in roles)),
        origin=replace(
            origin,
            position=merged.position,
            tool_version=merged.tool_version,
            measured_at=merged.measured_at,
            supplied=used,
            note="; ".join(x for x in (merged.note, supplied.note) if x),
        ),
        flags=_flags(merged),
    )
    return Completed(measurement=measurement)


def _unknown_gpus(draft: Draft, names: Names, used: Mapping[str, str]) -> list[Issue]:
    """GPUs that no prediction could be made for."""
    of_roles = [] if "gpu" in used else [r.gpu for r in draft.roles]
    mentioned = dict.fromkeys(g for g in (draft.gpu, *of_roles) if g)
    return [issue for g in mentioned if (issue := names.unknown_gpu(g)) is not None]


def _absent(value: object) -> bool:
    return value is None or value == ()


def _merge(draft: Draft, supplied: Supplied, names: Names) -> tuple[Draft, dict[str, str], list[Issue]]:
    """The draft with what the user stated, which fields that were, and contradictions between the two."""
    changes: dict[str, Any] = {}
    conflicts: list[Issue] = []
    for name in _OVERRIDABLE:
        found, stated = getattr(draft, name), getattr(supplied, name)
        if _absent(stated) or (not _absent(found) and _same(name, found, stated, names)):
            continue
        if _absent(found) or supplied.override:
            changes[name] = stated
        else:
            conflicts.append(_conflict(name, _shown(found), _shown(stated)))
    if supplied.prefix_hit is not None:
        changes["prefix_hit"] = supplied.prefix_hit
    return replace(draft, **changes), {k: _shown(v) for k, v in changes.items()}, conflicts


def _same(name: str, found: object, stated: object, names: Names) -> bool:
    if name == "model":
        return names.model(str(found)) == names.model(str(stated))
    if name == "gpu":
        return names.gpu(str(found)) == names.gpu(str(stated))
    if name == "engine":
        return engine(found) is engine(stated)
    if name == "roles" and isinstance(found, tuple) and isinstance(stated, tuple):
        # a label carries no GPU type
        return {replace(r, gpu=None) for r in found} == {replace(r, gpu=None) for r in stated}
    return found == stated


def _roles(draft: Draft, names: Names, *, one_gpu: bool) -> tuple[MeasuredRole, ...]:
    gpu = draft.gpu or ""
    return tuple(
        MeasuredRole(
            role=r.role,
            gpu=names.gpu(gpu if one_gpu else r.gpu or gpu),
            groups=r.groups,
            tp=r.tp,
            dp=r.dp,
            ep=r.ep,
            dcp=r.dcp,
        )
        for r in sorted(draft.roles, key=lambda r: _ROLE_ORDER.index(r.role))
    )


def _result(draft: Draft, gpus: int) -> MeasuredResult:
    def per_gpu(rate: float | None) -> float | None:
        return None if rate is None else rate / gpus

    return MeasuredResult(
        output_tok_s_per_gpu=per_gpu(draft.totals.output_tok_s),
        input_tok_s_per_gpu=per_gpu(draft.totals.input_or_rest_tok_s),
        requests_per_s=draft.totals.requests_per_s,
        ttft=draft.ttft,
        tpot=draft.tpot,
        itl=draft.itl,
        e2e=draft.e2e,
        completed=draft.completed,
        failed=draft.failed,
        duration_s=draft.duration_s,
    )


def _flags(draft: Draft) -> tuple[MeasurementFlag, ...]:
    flags = list(draft.flags)
    if draft.failed:
        flags.append(MeasurementFlag.FAILED_REQUESTS)
    if draft.warm_up is False:
        flags.append(MeasurementFlag.NO_WARM_UP)
    concurrency = draft.load.concurrency if draft.load else None
    if concurrency is not None and draft.completed is not None and draft.completed < 2 * concurrency:
        flags.append(MeasurementFlag.FEW_REQUESTS)
    return tuple(flags)


def _implausible(draft: Draft) -> list[Issue]:
    """Values no run can have; a damaged file shows here."""
    totals, load = draft.totals, draft.load or MeasuredLoad()
    lowest: list[tuple[str, float | None, float]] = [
        ("prompt length", draft.isl, 1),
        ("output length", draft.osl, 1),
        ("prefix hit share", draft.prefix_hit, 0),
        ("requests completed", draft.completed, 0),
        ("requests failed", draft.failed, 0),
        ("output rate", totals.output_tok_s, 0),
        ("input rate", totals.input_or_rest_tok_s, 0),
        ("request rate", totals.requests_per_s, 0),
        ("concurrency", load.concurrency, 0),
    ]
    for role in draft.roles:
        widths = {"engine groups": role.groups, "TP": role.tp, "DP": role.dp, "EP": role.ep, "DCP": role.dcp}
        lowest += [(f"{role.role.value} {name}", value, 1) for name, value in widths.items()]
    for name, latency in (("TTFT", draft.ttft), ("TPOT", draft.tpot), ("ITL", draft.itl), ("E2E", draft.e2e)):
        values = (latency.mean_ms, latency.p50_ms, latency.p90_ms, latency.p95_ms, latency.p99_ms)
        lowest += [(name, value, 0) for value in values]
    found = [f"{name} {value:g}" for name, value, least in lowest if value is not None and value < least]
    if draft.prefix_hit > 1:
        found.append(f"prefix hit share {draft.prefix_hit:g}")
    if not found:
        return []
    return [
        Issue(
            code="measurement.implausible",
            what=", ".join(dict.fromkeys(found)),
            why="no run has such values; the file is damaged or was edited",
            fix="check the file, or state the right value with a flag and --override",
        )
    ]


# --- messages ---


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_shown(v) for v in value)
    if isinstance(value, RoleDraft):
        ep = f",ep{value.ep}" if value.ep > 1 else ""
        return f"{value.role} {value.groups}x(tp{value.tp},dp{value.dp}{ep})"
    if isinstance(value, MeasuredLoad):
        parts = (
            f"concurrency {value.concurrency:g}" if value.concurrency is not None else "",
            f"{value.request_rate_per_s:g} requests/s" if value.request_rate_per_s is not None else "",
        )
        return ", ".join(p for p in parts if p) or "unbounded"
    return str(value)


def _conflict(name: str, found: str, stated: str) -> Issue:
    return Issue(
        code="measurement.conflict",
        what=f"the file says {name.replace('_', ' ')} {found}, the command says {stated}",
        why="one of the two is wrong",
        fix="drop the flag, or add --override if the file is wrong",
    )


def _unknown_engine(name: str) -> Issue:
    return Issue(
        code="engine.unknown",
        what=f"engine '{name}'",
        why="measurements are kept for engines that can be priced",
        fix=did_you_mean(name, ENGINE_NAMES),
    )


def _no_result() -> Issue:
    return Issue(
        code="measurement.no_result",
        what="the run has neither a token rate nor TTFT or TPOT",
        why="there is nothing to compare a prediction with",
        fix="use a streaming benchmark that reports them",
    )
