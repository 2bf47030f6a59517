"""InferenceX (SemiAnalysis) aggregate results, fixed-length workloads; one object or a list of them.

Traps: seconds; in disaggregated rows the output rate is per *decode* GPU, the input rate per *prefill* GPU and the total
rate per GPU of both; in single-pool rows every rate was divided by ``tp``, which is the worker size: with DP attention it
is the DP width. ``dp_attention`` is the text "true" or "false". ``std_intvty`` is 1 / std and means nothing. ISL and OSL are
nominal: requests average 0.9 of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.domain.deployment import Role
from planner.domain.errors import Issue
from planner.domain.measurement import BenchmarkFormat, Latency, MeasuredLoad, MeasurementFlag
from planner.measurements.documents import Document
from planner.measurements.draft import Draft, RoleDraft, Totals
from planner.measurements.formats.checked import checked
from planner.measurements.values import (
    RANDOM_CV,
    Json,
    first,
    integer,
    mean_of_nominal,
    number,
    positive,
    suffixed,
    switch,
    text,
    version_from_image,
)


class InferenceXImporter:
    """``agg_*.json`` of InferenceX."""

    format = BenchmarkFormat.INFERENCEX

    def matches(self, document: Document) -> bool:
        """Hardware, concurrency and a rate per GPU in every run."""
        runs = document.runs()
        return bool(runs) and all(
            isinstance(v, Mapping) and {"hw", "conc", "tput_per_gpu"} <= set(v) for _, v in runs
        )

    def read(self, document: Document) -> tuple[Draft, ...]:
        """One draft per object."""
        return tuple(_draft(v, position) for position, v in document.runs())


@checked
def _draft(run: Mapping[str, Json], position: str) -> Draft:
    disaggregated = switch(run.get("disagg")) is True
    roles, issues = _two_pools(run) if disaggregated else _one_pool(run)
    tpot = suffixed(run, "tpot", to_ms=1e3)
    flags: tuple[MeasurementFlag, ...] = ()
    if not tpot.known:
        tpot = _from_interactivity(run)
        flags = (MeasurementFlag.TPOT_FROM_RATE,) if tpot.known else ()
    speculation = text(first(run, "spec_decoding", "mtp"))
    return Draft(
        position=position,
        model=text(run.get("model")),
        gpu=text(run.get("hw")),
        engine=text(run.get("framework")),
        engine_version=version_from_image(run.get("image")),
        roles=roles,
        isl=mean_of_nominal(integer(run.get("isl"))),
        osl=mean_of_nominal(integer(run.get("osl"))),
        length_cv=RANDOM_CV,
        load=MeasuredLoad(concurrency=positive(run.get("conc"))),
        mtp=None if speculation is None else speculation.lower() not in {"none", "off", "false"},
        quantization=text(run.get("precision")),
        totals=_totals(run, roles, disaggregated=disaggregated),
        ttft=suffixed(run, "ttft", to_ms=1e3),
        tpot=tpot,
        itl=suffixed(run, "itl", to_ms=1e3),
        e2e=suffixed(run, "e2el", to_ms=1e3),
        flags=flags,
        issues=issues,
    )


def _worker(
    run: Mapping[str, Json], prefix: str, role: Role, *, groups: int, gpu: str | None
) -> RoleDraft | None:
    size = integer(run.get(f"{prefix}tp"))
    if size is None:
        return None
    data_parallel = switch(run.get(f"{prefix}dp_attention")) is True
    return RoleDraft(
        role=role,
        groups=groups,
        tp=1 if data_parallel else size,
        dp=size if data_parallel else 1,
        ep=integer(run.get(f"{prefix}ep")) or 1,
        dcp=integer(run.get(f"{prefix}dcp_size")) or 1,
        gpu=gpu,
    )


def _one_pool(run: Mapping[str, Json]) -> tuple[tuple[RoleDraft, ...], tuple[Issue, ...]]:
    role = _worker(run, "", Role.AGGREGATED, groups=1, gpu=None)
    return ((role,) if role else ()), ()


def _two_pools(run: Mapping[str, Json]) -> tuple[tuple[RoleDraft, ...], tuple[Issue, ...]]:
    roles: list[RoleDraft] = []
    issues: list[Issue] = []
    for name, kind in (("prefill", Role.PREFILL), ("decode", Role.DECODE)):
        workers = integer(run.get(f"{name}_num_workers")) or 1
        role = _worker(run, f"{name}_", kind, groups=workers, gpu=text(run.get(f"{name}_hw")))
        if role is None:
            return (), ()
        stated = integer(run.get(f"num_{name}_gpu"))
        if stated is not None and stated != role.gpus:
            issues.append(_inconsistent(name, stated, role))
        roles.append(role)
    return tuple(roles), tuple(issues)


def _totals(run: Mapping[str, Json], roles: tuple[RoleDraft, ...], *, disaggregated: bool) -> Totals:
    if not roles:
        return Totals()
    output_gpus = input_gpus = all_gpus = sum(r.gpus for r in roles)
    if disaggregated:
        input_gpus, output_gpus = roles[0].gpus, roles[1].gpus

    def whole(key: str, gpus: int) -> float | None:
        rate = number(run.get(key))
        return None if rate is None else rate * gpus

    return Totals(
        output_tok_s=whole("output_tput_per_gpu", output_gpus),
        input_tok_s=whole("input_tput_per_gpu", input_gpus),
        total_tok_s=whole("tput_per_gpu", all_gpus),
    )


def _from_interactivity(run: Mapping[str, Json]) -> Latency:
    # a slow percentile of speed is a slow percentile of time: p99_intvty is 1 / p99 TPOT
    def ms(name: str) -> float | None:
        rate = positive(run.get(f"{name}_intvty"))
        return None if rate is None else 1000.0 / rate

    return Latency(p50_ms=ms("median"), p90_ms=ms("p90"), p99_ms=ms("p99"))


def _inconsistent(name: str, stated: int, role: RoleDraft) -> Issue:
    return Issue(
        code="measurement.gpus_inconsistent",
        what=f"num_{name}_gpu is {stated}, but {role.groups} workers of {role.tp * role.dp} GPUs are {role.gpus}",
        why="rates are stored per GPU, so the GPU count must be certain",
        fix=f"state the widths with --{name} and --override",
    )
