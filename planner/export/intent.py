"""What a manifest cannot say about its plan, kept in one annotation.

Traffic, service levels, hardware profile ids and the planned load leave no trace in flags or fields; the rest of a plan is
read back from the manifests themselves (`planner.export.parse`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.domain.deployment import DeploymentPlan, RouterKind, RouterPolicy, Scorer
from planner.domain.errors import InputError, Issue
from planner.domain.workload import SloTargets, Workload

SCHEMA = "wideplan.plan-intent/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleIntent:
    """Per role: profile ids, planned load, and the assumed acceptance of drafted tokens."""

    gpu: str
    node: str
    concurrency: float
    acceptance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The annotation's content."""

    name: str
    model: str
    engine: str
    engine_version: str
    fabric: str
    workload: Workload
    slo: SloTargets
    concurrency: int
    gpus_owned: int
    peak_prefill_tok_s_per_rank: float | None
    router: RouterPolicy
    roles: Mapping[str, RoleIntent] = field(default_factory=dict)


def intent_of(plan: DeploymentPlan) -> Intent:
    """The part of `plan` that manifests do not show."""
    return Intent(
        name=plan.name,
        model=plan.model,
        engine=plan.engine,
        engine_version=plan.engine_version,
        fabric=plan.fabric,
        workload=plan.workload,
        slo=plan.slo,
        concurrency=plan.concurrency,
        gpus_owned=plan.gpus_owned,
        peak_prefill_tok_s_per_rank=plan.peak_prefill_tok_s_per_rank,
        router=plan.router,
        roles={
            r.role.value: RoleIntent(
                gpu=r.gpu,
                node=r.node,
                concurrency=r.concurrency,
                acceptance=r.speculation.acceptance if r.speculation else None,
            )
            for r in plan.roles
        },
    )


def encode(plan: DeploymentPlan) -> str:
    """Compact JSON, byte-stable."""
    i = intent_of(plan)
    document = {
        "schema": SCHEMA,
        "name": i.name,
        "model": i.model,
        "engine": i.engine,
        "engine_version": i.engine_version,
        "fabric": i.fabric,
        "workload": {
            "isl": i.workload.isl,
            "osl": i.workload.osl,
            "prefix_hit": i.workload.prefix_hit,
            "prefix_shared": i.workload.prefix_shared,
            "length_cv": i.workload.length_cv,
        },
        "slo": {
            "ttft_ms": i.slo.ttft_ms,
            "tpot_ms": i.slo.tpot_ms,
            "tok_s_user": i.slo.tok_s_user,
        },
        "concurrency": i.concurrency,
        "gpus_owned": i.gpus_owned,
        "peak_prefill_tok_s_per_rank": i.peak_prefill_tok_s_per_rank,
        "router": {
            "kind": i.router.kind.value,
            "prefill_scorers": [_scorer(s) for s in i.router.prefill_scorers],
            "decode_scorers": [_scorer(s) for s in i.router.decode_scorers],
            "decider": i.router.decider,
            "decider_parameters": dict(i.router.decider_parameters),
        },
        "roles": {
            name: {"gpu": r.gpu, "node": r.node, "concurrency": r.concurrency, "acceptance": r.acceptance}
            for name, r in i.roles.items()
        },
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _scorer(scorer: Scorer) -> dict[str, object]:
    return {"type": scorer.type, "weight": scorer.weight, "parameters": dict(scorer.parameters)}


def decode(text: str, *, where: str) -> Intent:
    """The intent in an annotation. Raises InputError ``import.intent_malformed`` or ``import.intent_schema``."""
    try:
        d = json.loads(text)
        schema = d.get("schema")
        if schema != SCHEMA:
            raise InputError(
                Issue(
                    code="import.intent_schema",
                    what=f"plan annotation with schema {schema!r}",
                    why=f"this version reads {SCHEMA}",
                    fix="export the plan again, or remove the annotation and pass the missing values as flags",
                    where=where,
                )
            )
        return _decode(d)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            Issue(
                code="import.intent_malformed",
                what="the plan annotation cannot be read",
                why=f"{type(error).__name__}: {error}",
                fix="remove the annotation and pass the missing values as flags",
                where=where,
            )
        ) from error


def _decode(d: Mapping[str, object]) -> Intent:
    def text(key: str) -> str:
        value = d[key]
        if not isinstance(value, str):
            msg = f"{key} is not text"
            raise TypeError(msg)
        return value

    def table(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise TypeError("expected a mapping")
        return value

    def number(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            msg = f"{value!r} is not a number"
            raise TypeError(msg)
        return value

    def maybe(value: object) -> float | None:
        return None if value is None else number(value)

    def scorers(value: object) -> tuple[Scorer, ...]:
        if not isinstance(value, list):
            raise TypeError("scorers are not a list")
        rows = [table(v) for v in value]
        return tuple(
            Scorer(
                type=str(r["type"]),
                weight=float(number(r["weight"])),
                parameters={
                    k: v for k, v in table(r["parameters"]).items() if isinstance(v, str | int | float)
                },
            )
            for r in rows
        )

    w, s, r = table(d["workload"]), table(d["slo"]), table(d["router"])
    return Intent(
        name=text("name"),
        model=text("model"),
        engine=text("engine"),
        engine_version=text("engine_version"),
        fabric=text("fabric"),
        workload=Workload(
            isl=int(number(w["isl"])),
            osl=int(number(w["osl"])),
            prefix_hit=number(w["prefix_hit"]),
            prefix_shared=w.get("prefix_shared") is True,  # manifests of earlier versions do not say
            length_cv=number(w["length_cv"]),
        ),
        slo=SloTargets(
            ttft_ms=maybe(s["ttft_ms"]), tpot_ms=maybe(s["tpot_ms"]), tok_s_user=maybe(s["tok_s_user"])
        ),
        concurrency=int(number(d["concurrency"])),
        gpus_owned=int(number(d["gpus_owned"])),
        peak_prefill_tok_s_per_rank=maybe(d["peak_prefill_tok_s_per_rank"]),
        router=RouterPolicy(
            kind=RouterKind(str(r["kind"])),
            prefill_scorers=scorers(r["prefill_scorers"]),
            decode_scorers=scorers(r["decode_scorers"]),
            decider=str(r["decider"]),
            decider_parameters={k: int(number(v)) for k, v in table(r["decider_parameters"]).items()},
        ),
        roles={
            name: RoleIntent(
                gpu=str(table(v)["gpu"]),
                node=str(table(v)["node"]),
                concurrency=number(table(v)["concurrency"]),
                acceptance=maybe(table(v)["acceptance"]),
            )
            for name, v in table(d["roles"]).items()
        },
    )
