"""``vllm bench serve`` results (one JSON object, or one per line with ``--append-result``) and sweep folders.

Traps: latencies are milliseconds; ``max_concurrency`` null and ``request_rate`` "inf" mean unbounded; before 0.9 a key
was written as "request_goodput:"; with speculative decoding ITL is per chunk, so TPOT is what is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean, pstdev

from planner.domain.deployment import Role
from planner.domain.measurement import BenchmarkFormat, MeasuredLoad
from planner.measurements.documents import Document
from planner.measurements.draft import Draft, RoleDraft, Totals, from_widths, parse_role
from planner.measurements.formats.checked import checked
from planner.measurements.values import (
    Json,
    first,
    integer,
    number,
    positive,
    suffixed,
    switch,
    text,
)


class VllmBenchImporter:
    """Results of ``vllm bench serve``."""

    format = BenchmarkFormat.VLLM_BENCH_SERVE

    def matches(self, document: Document) -> bool:
        """Every run names `model_id` and a total token rate; sweep records are left to the sweep importer."""
        runs = document.runs()
        return bool(runs) and all(_is_result(v) for _, v in runs) and not _is_sweep(document)

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft per JSON object."""
        return tuple(_draft(v, position, document) for position, v in document.runs())


class VllmSweepImporter:
    """Records of ``vllm bench sweep``: bench results with the overrides of the serve command beside them."""

    format = BenchmarkFormat.VLLM_BENCH_SWEEP

    def matches(self, document: Document) -> bool:
        """A bench result in a ``run=N.json`` file, or with a run number."""
        runs = document.runs()
        return bool(runs) and all(_is_result(v) for _, v in runs) and _is_sweep(document)

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft per record; the engine is vLLM, because the sweep started it."""
        return tuple(_draft({"engine": "vllm", **v}, position, document) for position, v in document.runs())


def _is_result(value: Json) -> bool:
    return isinstance(value, Mapping) and "model_id" in value and "total_token_throughput" in value


def _is_sweep(document: Document) -> bool:
    return document.in_sweep or all("run_number" in v for _, v in document.runs())


@checked
def _draft(raw: Mapping[str, Json], position: str, document: Document) -> Draft:
    # 0.8 wrote "request_goodput:"; keys are compared without the stray colon
    run = {k.rstrip(":"): v for k, v in raw.items()}
    completed = integer(run.get("completed"))
    isl, cv = _lengths(run, "input", completed)
    osl, _ = _lengths(run, "output", completed)
    draft_tokens = integer(first(run, "num_speculative_tokens", "draft_tokens"))
    acceptance = positive(run.get("spec_decode_acceptance_length"))
    mtp = switch(run.get("mtp"))
    if mtp is None and (draft_tokens or acceptance):
        mtp = True
    warm_ups = number(first(run, "num_warmups", "warmup"))
    return Draft(
        position=position,
        model=text(run.get("model_id")),
        gpu=text(first(run, "gpu", "gpu_type", "accelerator")),
        engine=_engine(run),
        engine_version=text(first(run, "engine_version", "vllm_version", "sglang_version")),
        roles=_roles(run),
        isl=isl,
        osl=osl,
        prefix_hit=number(run.get("prefix_hit")) or 0.0,
        length_cv=cv,
        load=MeasuredLoad(
            concurrency=positive(run.get("max_concurrency")),
            request_rate_per_s=positive(run.get("request_rate")),
        ),
        dbo=switch(first(run, "enable_dbo", "dbo")),
        eplb=switch(first(run, "enable_eplb", "eplb")),
        mtp=mtp,
        draft_tokens=draft_tokens,
        acceptance_length=acceptance,
        quantization=text(run.get("quantization")),
        totals=Totals(
            output_tok_s=number(run.get("output_throughput")),
            total_tok_s=number(run.get("total_token_throughput")),
            requests_per_s=number(run.get("request_throughput")),
        ),
        ttft=suffixed(run, "ttft_ms", to_ms=1.0),
        tpot=suffixed(run, "tpot_ms", to_ms=1.0),
        itl=suffixed(run, "itl_ms", to_ms=1.0),
        e2e=suffixed(run, "e2el_ms", to_ms=1.0),
        completed=completed,
        failed=_failed(run, completed),
        duration_s=positive(run.get("duration")),
        warm_up=document.warm_up_beside or bool(warm_ups),
        measured_at=_date(run.get("date")),
        tool_version=text(run.get("vllm_bench_version")),
        note=text(run.get("label")) or "",
    )


def _engine(run: Mapping[str, Json]) -> str | None:
    # the default backend "openai" says how requests are sent, not what answers them
    stated = text(run.get("engine"))
    backend = text(first(run, "backend", "endpoint_type"))
    if stated is None and backend in {"vllm", "sglang", "tensorrt-llm"}:
        return backend
    return stated


def _roles(run: Mapping[str, Json]) -> tuple[RoleDraft, ...]:
    labelled = [
        role
        for key, kind in (
            ("prefill", Role.PREFILL),
            ("decode", Role.DECODE),
            ("aggregated", Role.AGGREGATED),
        )
        if isinstance(run.get(key), str) and (role := parse_role(run[key], kind)) is not None
    ]
    if labelled:
        return tuple(labelled)
    tp = integer(first(run, "tensor_parallel_size", "tp"))
    dp = integer(first(run, "data_parallel_size", "dp"))
    if tp is None and dp is None:
        return ()
    widths = {"tp": tp or 1, "dp": dp or 1}
    ep = integer(first(run, "expert_parallel_size", "ep"))
    # vLLM's switch has one width: all GPUs of the group
    on = switch(run.get("enable_expert_parallel"))
    widths["ep"] = widths["tp"] * widths["dp"] if on else ep or 1
    widths["dcp"] = integer(first(run, "decode_context_parallel_size", "dcp")) or 1
    groups = integer(first(run, "replicas", "num_replicas")) or 1
    return (from_widths(widths, Role.AGGREGATED, groups=groups),)


def _lengths(run: Mapping[str, Json], side: str, completed: int | None) -> tuple[int | None, float]:
    """Mean tokens per request and their coefficient of variation (0 without ``--save-detailed``)."""
    detailed = run.get(f"{side}_lens")
    if isinstance(detailed, Sequence) and not isinstance(detailed, str):
        lengths = [x for x in (number(v) for v in detailed) if x is not None and x > 0]
        if lengths and (mean := fmean(lengths)) > 0:
            return round(mean), pstdev(lengths) / mean
    total = number(run.get(f"total_{side}_tokens"))
    if total is None or not completed:
        return None, 0.0
    return round(total / completed), 0.0


def _failed(run: Mapping[str, Json], completed: int | None) -> int | None:
    failed = integer(run.get("failed"))
    prompts = integer(run.get("num_prompts"))
    if failed is None and prompts is not None and completed is not None:
        return prompts - completed
    return failed


def _date(value: Json) -> datetime | None:
    name = text(value)
    if name is None:
        return None
    try:
        return datetime.strptime(name, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
