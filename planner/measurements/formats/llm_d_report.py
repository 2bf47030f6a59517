"""llm-d benchmark reports 0.1, 0.2 and 0.2.1 (YAML or JSON).

Traps: every statistic names its unit (s or ms); reports made from guidellm carry its NTPOT as ``time_per_output_token``
and its TPOT as ``inter_token_latency``; ``dp`` counts all DP ranks of a replica while ``dp_local`` counts those of a pod;
a role is ``replica``, ``prefill`` or ``decode``; ``.inf`` concurrency means unbounded. Pipeline parallelism is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from planner.domain.deployment import Role
from planner.domain.errors import Issue
from planner.domain.measurement import BenchmarkFormat, Latency, MeasuredLoad
from planner.measurements.documents import Document
from planner.measurements.draft import Draft, RoleDraft, Totals
from planner.measurements.formats.checked import checked
from planner.measurements.values import (
    Json,
    at,
    engine,
    first,
    integer,
    items,
    number,
    positive,
    rounded,
    section,
    statistics,
    switch,
    text,
    unit_to_ms,
    version_from_image,
)

VERSIONS: Final = ("0.1", "0.2", "0.2.1")
_ROLES: Final = {"replica": Role.AGGREGATED, "prefill": Role.PREFILL, "decode": Role.DECODE}


class LlmDReportImporter:
    """Benchmark reports of llm-d."""

    format = BenchmarkFormat.LLM_D_REPORT

    def matches(self, document: Document) -> bool:
        """A version and a scenario, with metrics (0.1) or results (0.2), in every document of the file."""
        runs = document.runs()
        return bool(runs) and all(_is_report(v) for _, v in runs)

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft per report."""
        return tuple(_draft(v, position) for position, v in document.runs())


def _is_report(value: Json) -> bool:
    return (
        isinstance(value, Mapping)
        and "version" in value
        and isinstance(value.get("scenario"), Mapping)
        and ("metrics" in value or "results" in value)
    )


@checked
def _draft(value: Mapping[str, Json], position: str) -> Draft:
    version = str(value["version"])
    if version not in VERSIONS:
        return Draft(position=position, issues=(_unknown_version(version),))
    return replace(_from_0_1(value) if version == "0.1" else _from_0_2(value), position=position)


# --- 0.2 and 0.2.1 ---


def _from_0_2(value: Mapping[str, Json]) -> Draft:
    engines = [c for c in items(value, "scenario.stack") if at(c, "standardized.kind") == "inference_engine"]
    head = engines[0] if engines else {}
    load = section(value, "scenario.load.standardized")
    aggregate = section(value, "results.request_performance.aggregate")
    tool = text(load.get("tool")) or ""
    args = section(head, "native.args")
    roles = tuple(r for r in (_component_role(c) for c in engines) if r is not None)
    total = integer(at(aggregate, "requests.total"))
    failed = integer(at(aggregate, "requests.failures"))
    return Draft(
        model=text(at(head, "standardized.model.name")),
        gpu=roles[0].gpu if roles else None,
        engine=_engine_name(head),
        engine_version=_engine_version(head),
        roles=roles,
        isl=rounded(first(aggregate, "requests.input_length.mean") or at(load, "input_seq_len.value")),
        osl=rounded(first(aggregate, "requests.output_length.mean") or at(load, "output_seq_len.value")),
        prefix_hit=_prefix_share(load),
        length_cv=_cv(at(aggregate, "requests.input_length"), at(load, "input_seq_len")),
        load=_load(load),
        dbo=_argument(args, "--enable-dbo"),
        eplb=_argument(args, "--enable-eplb"),
        mtp=True if args.get("--speculative-config") else None,
        draft_tokens=integer(at(args, "--speculative-config.num_speculative_tokens")),
        quantization=text(args.get("--quantization")),
        totals=Totals(
            output_tok_s=number(at(aggregate, "throughput.output_token_rate.mean")),
            input_tok_s=number(at(aggregate, "throughput.input_token_rate.mean")),
            total_tok_s=number(at(aggregate, "throughput.total_token_rate.mean")),
            requests_per_s=number(at(aggregate, "throughput.request_rate.mean")),
        ),
        ttft=_with_unit(at(aggregate, "latency.time_to_first_token")),
        tpot=_tpot(section(aggregate, "latency"), tool),
        itl=_itl(section(aggregate, "latency"), tool),
        e2e=_with_unit(at(aggregate, "latency.request_latency")),
        completed=total - (failed or 0) if total is not None else None,
        failed=failed,
        duration_s=_iso_duration_s(at(value, "run.time.duration")),
        measured_at=_time(first(value, "run.time.start", "run.time.end")),
        tool_version=" ".join(x for x in (tool, text(load.get("tool_version"))) if x) or None,
        note=text(at(value, "run.description")) or "",
        issues=tuple(_pipeline_issues(engines)),
    )


def _component_role(component: Mapping[str, Json]) -> RoleDraft | None:
    standard = section(component, "standardized")
    widths = section(standard, "accelerator.parallelism")
    role = _ROLES.get(str(standard.get("role")))
    tp = integer(widths.get("tp"))
    if role is None or tp is None:
        return None
    args = section(component, "native.args")
    return RoleDraft(
        role=role,
        groups=integer(standard.get("replicas")) or 1,
        tp=tp,
        dp=integer(widths.get("dp")) or 1,
        ep=integer(widths.get("ep")) or 1,
        dcp=integer(args.get("--decode-context-parallel-size")) or 1,
        gpu=text(at(standard, "accelerator.model")),
    )


def _pipeline_issues(engines: list[Mapping[str, Json]]) -> list[Issue]:
    return [
        _pipeline_issue(pp)
        for c in engines
        if (pp := integer(at(c, "standardized.accelerator.parallelism.pp"))) is not None and pp > 1
    ]


def _engine_name(component: Mapping[str, Json]) -> str | None:
    for value in (at(component, "standardized.tool"), at(component, "standardized.tool_version")):
        if engine(value) is not None:
            return text(value)
    return None


def _engine_version(component: Mapping[str, Json]) -> str | None:
    stated = text(at(component, "standardized.tool_version"))
    if stated is None:
        return None
    return version_from_image(stated) if ":" in stated else re.sub(r"^v(?=\d)", "", stated)


def _load(load: Mapping[str, Json]) -> MeasuredLoad | None:
    unbounded = str(load.get("concurrency")) in {"inf", ".inf", "Infinity"}
    concurrency = positive(load.get("concurrency"))
    rate = positive(load.get("rate_qps"))
    if concurrency is None and rate is None and not unbounded:
        return None
    turns = (
        integer(at(load, "multi_turn.max_turns.value")) if at(load, "multi_turn.enabled") is True else None
    )
    return MeasuredLoad(concurrency=concurrency, request_rate_per_s=rate, turns=turns or 1)


def _prefix_share(load: Mapping[str, Json]) -> float:
    # a shared prefix is reused by everybody after its first request; short runs reuse a little less
    shared = positive(at(load, "prefix.prefix_len.value"))
    isl = positive(at(load, "input_seq_len.value"))
    return min(shared / isl, 1.0) if shared and isl else 0.0


def _cv(measured: Json, planned: Json) -> float:
    for source, mean, sd in ((measured, "mean", "stddev"), (planned, "value", "std_dev")):
        m, s = positive(at(source, mean)), number(at(source, sd))
        if m and s is not None:
            return s / m
    return 0.0


def _argument(args: Mapping[str, Json], flag: str) -> bool | None:
    if flag not in args:
        return None
    # a flag without a value is listed with null
    return True if args[flag] in (None, "") else switch(args[flag])


# --- 0.1 ---


def _from_0_1(value: Mapping[str, Json]) -> Draft:
    scenario = value["scenario"]
    metrics = section(value, "metrics")
    args = section(scenario, "load.args")
    tool = text(at(scenario, "load.name")) or ""
    head = next(iter(items(scenario, "platform.engine")), None)
    roles = _roles_0_1(scenario)
    total = integer(at(metrics, "requests.total"))
    failed = integer(at(metrics, "requests.failures"))
    concurrency = positive(first(args, "max_concurrency", "concurrency"))
    rate = positive(first(args, "request_rate", "rate"))
    started = number(at(metrics, "time.start"))
    name = text(at(head, "name"))
    return Draft(
        model=text(at(scenario, "model.name")),
        gpu=roles[0].gpu if roles else None,
        engine=name if engine(name) is not None else None,
        engine_version=text(at(head, "version")) or version_from_image(name),
        roles=roles,
        isl=rounded(at(metrics, "requests.input_length.mean")),
        osl=rounded(at(metrics, "requests.output_length.mean")),
        length_cv=_cv(at(metrics, "requests.input_length"), None),
        load=MeasuredLoad(concurrency=concurrency, request_rate_per_s=rate)
        if {"max_concurrency", "concurrency", "request_rate", "rate"} & set(args)
        else None,
        quantization=text(at(scenario, "model.quantization")),
        totals=Totals(
            output_tok_s=number(at(metrics, "throughput.output_tokens_per_sec")),
            total_tok_s=number(at(metrics, "throughput.total_tokens_per_sec")),
            requests_per_s=number(at(metrics, "throughput.requests_per_sec")),
        ),
        ttft=_with_unit(at(metrics, "latency.time_to_first_token")),
        tpot=_tpot(section(metrics, "latency"), tool),
        itl=_itl(section(metrics, "latency"), tool),
        e2e=_with_unit(at(metrics, "latency.request_latency")),
        completed=total - (failed or 0) if total is not None else None,
        failed=failed,
        duration_s=positive(at(metrics, "time.duration")),
        measured_at=datetime.fromtimestamp(started, tz=UTC) if started else None,
        tool_version=tool or None,
        issues=tuple(
            _pipeline_issue(pp)
            for a in items(scenario, "host.accelerator")
            if (pp := integer(at(a, "parallelism.pp"))) is not None and pp > 1
        ),
    )


def _roles_0_1(scenario: Mapping[str, Json]) -> tuple[RoleDraft, ...]:
    """One entry per engine replica; equal ones are counted as groups of one role."""
    kinds = items(scenario, "host.type")
    accelerators = items(scenario, "host.accelerator")
    counted: Counter[RoleDraft] = Counter()
    for kind, accelerator in zip(kinds, accelerators, strict=False):
        tp = integer(at(accelerator, "parallelism.tp"))
        if str(kind) not in _ROLES or tp is None:
            return ()
        role = RoleDraft(
            role=_ROLES[str(kind)],
            groups=1,
            tp=tp,
            dp=integer(at(accelerator, "parallelism.dp")) or 1,
            ep=integer(at(accelerator, "parallelism.ep")) or 1,
            gpu=text(at(accelerator, "model")),
        )
        counted[role] += 1
    return tuple(
        RoleDraft(role=r.role, groups=n, tp=r.tp, dp=r.dp, ep=r.ep, gpu=r.gpu) for r, n in counted.items()
    )


# --- common ---


def _with_unit(source: Json) -> Latency:
    to_ms = unit_to_ms(at(source, "units"))
    return Latency() if to_ms is None else statistics(source, to_ms=to_ms)


def _tpot(latency: Mapping[str, Json], tool: str) -> Latency:
    stated = _with_unit(latency.get("time_per_output_token"))
    if tool.lower() == "guidellm" or (tool.lower() == "aiperf" and not stated.known):
        return _with_unit(latency.get("inter_token_latency"))
    return stated


def _itl(latency: Mapping[str, Json], tool: str) -> Latency:
    # what these two tools call inter-token latency is TPOT
    return (
        Latency()
        if tool.lower() in {"guidellm", "aiperf"}
        else _with_unit(latency.get("inter_token_latency"))
    )


def _iso_duration_s(value: Json) -> float | None:
    match = re.fullmatch(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?", text(value) or "")
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds = (float(g or 0) for g in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _time(value: Json) -> datetime | None:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    name = text(value)
    try:
        parsed = datetime.fromisoformat(name) if name else None
    except ValueError:
        return None
    return parsed.replace(tzinfo=UTC) if parsed is not None and parsed.tzinfo is None else parsed


def _pipeline_issue(pp: int) -> Issue:
    return Issue(
        code="measurement.pipeline_parallel",
        what=f"pipeline parallel size {pp}",
        why="the performance model has no pipeline stages, so the run cannot be compared with it",
        fix="measure a configuration without pipeline parallelism",
    )


def _unknown_version(version: str) -> Issue:
    return Issue(
        code="measurement.format_version",
        what=f"llm-d benchmark report version {version}",
        why=f"known versions: {', '.join(VERSIONS)}",
        fix="convert the report with llm-d-benchmark, or upgrade wideplan",
    )
