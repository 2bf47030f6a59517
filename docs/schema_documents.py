"""Every published document and the types behind it. `docs/build_schemas.py` turns this into schemas/.

Documents that only pass between parts of wideplan (the model index, a recording's lines) are in `INTERNAL`.
"""

from __future__ import annotations

from typing import Any, Literal

from schema_types import Document, Either, Keyed, Many, Maybe, Shape

INTERNAL = {
    "cluster-recording": "header of a recording; the lines after it are changes of views",
    "model-index": "index of profiles/models, rebuilt from its files",
    "study-bundle": "studies in the database's own form, moved between databases of one version",
}


def documents() -> dict[str, Document]:
    """All published documents by name."""
    parts = (_planning, _catalogue, _simulation, _studies, _measurements, _manifests, _cluster, _help)
    return {name: document for part in parts for name, document in part().items()}


def _planning() -> dict[str, Document]:
    from planner.domain.checkup import Check
    from planner.domain.deployment import DeploymentPlan
    from planner.domain.errors import Issue
    from planner.domain.evaluation import Evaluation
    from planner.domain.recipe import PlannedOutcome, Recipe
    from planner.domain.recommendation import Recommendation
    from planner.search.coverage import Coverage
    from planner.search.recipe_check import Change
    from planner.search.sizing.answer import SizingAnswer
    from planner.search.why_not import WhyNot

    return {
        "recommendation": Document(
            title="Frontier, ranked plans, the pick and its reasons",
            written_by="planner recommend --json",
            content=Recommendation,
        ),
        "plan": Document(
            title="One deployment plan",
            written_by="planner recommend --save, planner import --save, planner studies export --plan",
            content=Shape(plus={"plan": DeploymentPlan}),
        ),
        "estimate": Document(
            title="A plan with its figures",
            written_by="planner estimate --json",
            content=Shape(plus={"plan": DeploymentPlan, "evaluation": Evaluation}),
        ),
        "why-not": Document(
            title="Why a configuration is not legal, does not fit, or is not on the frontier",
            written_by="planner why-not --json",
            content=WhyNot,
        ),
        "sizing": Document(
            title="The smallest fleet that carries a load, per GPU type",
            written_by="planner size --json",
            content=SizingAnswer,
        ),
        "recipes": Document(
            title="All recipes",
            written_by="planner recipes list --json",
            content=Shape(plus={"recipes": list[Recipe]}),
        ),
        "recipe": Document(
            title="One recipe with the outcome that is kept for it",
            written_by="planner recipes show --json",
            content=Shape(base=Recipe, plus={"planned": PlannedOutcome | None}),
        ),
        "recipe-new": Document(
            title="A recipe that was written",
            written_by="planner recipes new --json",
            content=Shape(plus={"file": str, "recipe": Recipe}),
        ),
        "recipes-check": Document(
            title="Recipes whose outcome differs from the one that is kept",
            written_by="planner recipes check --json",
            content=Shape(
                plus={
                    "recipes": Many(Shape(plus={"recipe": str, "status": str, "changes": list[Change]})),
                    "page": str,
                }
            ),
        ),
        "doctor": Document(
            title="What works here, and the data behind a model on a GPU",
            written_by="planner doctor --json",
            content=Shape(plus={"ok": bool, "checks": list[Check], "coverage": Coverage | None}),
        ),
        "model-check": Document(
            title="Whether a checkpoint's configuration was understood",
            written_by="planner models check --json",
            content=Shape(plus={"file": str, "ok": bool, "issues": list[Issue], "model": Maybe(_model())}),
        ),
        "model": Document(
            title="Structure and sizes of a checkpoint",
            written_by="planner models show --json",
            content=_model(),
        ),
    }


def _model() -> Shape:
    from planner.catalog.models.describe import LayerLine
    from planner.domain.dtypes import KvDtype, WeightFormat
    from planner.domain.model import ModelSpec

    names = ("total", "active", "active_mean", "routed_experts", "shared_experts", "attention", "dense_mlp", "router",
             "embeddings", "other", "mtp")  # fmt: skip
    keep = {"id", "family", "architecture", "aliases", "source", "source_date", "confirmed", "notes", "hidden", "vocab",
            "max_position", "tied_embeddings", "mtp_layers"}  # fmt: skip
    return Shape(
        base=ModelSpec,
        drop=tuple(f for f in ModelSpec.__dataclass_fields__ if f not in keep),
        plus={
            "layers": list[LayerLine],
            "quantization": dict[str, WeightFormat | KvDtype],
            "parameters": Shape(plus=dict.fromkeys(names, float)),
            "weight_bytes": float,
            "kv_bytes_per_token": dict[KvDtype, float],
            "fixed_state_bytes_per_seq": dict[KvDtype, float],
            "formulas": list[str],
        },
    )


def _catalogue() -> dict[str, Document]:
    from planner.catalog.models.catalogue import ModelEntry
    from planner.domain.engine import EngineProfile
    from planner.domain.hardware import FabricProfile, GpuProfile, NodeShape

    severity = Literal["error", "warning"]
    finding = Shape(
        plus={"code": str, "severity": severity, "what": str, "why": str, "fix": str, "where": str | None}
    )
    lists = {"gpus": list[GpuProfile], "fabrics": list[FabricProfile], "clusters": list[NodeShape],
             "engines": list[EngineProfile]}  # fmt: skip
    family = Shape(
        plus={"family": str, "gpu": str, "rows": int, "median": float, "p90": float, "meets": bool}
    )
    return {
        "models": Document(
            title="Checkpoints of the catalogue",
            written_by="planner models list --json",
            content=Shape(plus={"models": list[ModelEntry]}),
        ),
        "profiles": Document(
            title="GPUs, fabrics, node shapes and engines",
            written_by="planner profiles list --json",
            content=Shape(maybe=lists),
        ),
        "profile": Document(
            title="One profile with what is doubtful about it",
            written_by="planner profiles show --json",
            content=Shape(
                plus={
                    "kind": str,
                    "profile": GpuProfile | FabricProfile | NodeShape | EngineProfile,
                    "findings": Many(finding),
                }
            ),
        ),
        "profiles-check": Document(
            title="Errors and warnings of profile files",
            written_by="planner profiles check --json",
            content=Shape(
                plus={
                    "errors": int,
                    "warnings": int,
                    "files": Many(Shape(plus={"file": str, "kind": str, "findings": Many(finding)})),
                }
            ),
        ),
        "operators-heldout": Document(
            title="Held-out errors of the fitted operator curves",
            written_by="planner profiles fit-operators --json",
            content=Shape(plus={"folder": str, "families": Many(family)}),
        ),
    }


def _simulation() -> dict[str, Document]:
    from planner.simulation.experiments.base import Check, Plot
    from planner.simulation.paired import PairedDifference
    from planner.simulation.result import SimulationResult

    result = Shape(
        base=SimulationResult,
        drop=("trace", "wall_s"),
        plus={"output_tok_s_per_gpu": float},
        nulls=True,
    )
    named = {"name": str, "law": int, "title": str, "published": str}
    outcome = {
        "headers": list[str],
        "rows": list[list[str]],
        "checks": list[Check],
        "plots": list[Plot],
        "notes": list[str],
    }
    return {
        "simulation": Document(
            title="What a simulation says about a plan",
            written_by="planner simulate --json",
            content=Shape(plus={"seed": int, "result": result}),
        ),
        "comparison": Document(
            title="Plans or routers under the same traffic",
            written_by="planner compare --json",
            content=Shape(
                plus={
                    "seed": int,
                    "results": Many(result),
                    "differences": Many(Shape(base=PairedDifference, plus={"significant": bool}, nulls=True)),
                }
            ),
        ),
        **_scaling(result),
        "experiments": Document(
            title="The laws that can be simulated",
            written_by="planner experiments list --json",
            content=Shape(plus={"experiments": Many(Shape(plus={**named, "simulated": bool}))}),
        ),
        "experiment-results": Document(
            title="Which laws the simulator reproduces",
            written_by="planner experiments run --json",
            content=Shape(
                plus={
                    "seed": int,
                    "results": Many(Shape(plus={**named, "passed": bool, **outcome}, nulls=True)),
                }
            ),
        ),
    }


def _scaling(result: Shape) -> dict[str, Document]:
    from planner.domain.provenance import Estimate
    from planner.domain.workload import SloTargets
    from planner.perf.encoder import EncoderSizing
    from planner.simulation.result import Figure
    from planner.simulation.scaling.compare import Answer
    from planner.simulation.scaling.elastic_compare import ElasticAnswer
    from planner.simulation.scaling.rebalancing import Rebalanced, RebalancingAnswer

    asked = {"plan": str, "seed": int}
    difference = Shape(plus={"variant": str, "metric": str, "difference": Figure}, nulls=True)
    way = Shape(base=Rebalanced, plus={"result": result}, nulls=True)
    return {
        "scaling": Document(
            title="Fixed and autoscaled fleets under a load curve",
            written_by="planner simulate --autoscale --json",
            content=Shape(
                base=Answer,
                drop=("replications",),
                plus={**asked, "targets": SloTargets, "differences": Many(difference)},
                nulls=True,
            ),
        ),
        "elastic-ep": Document(
            title="A decode group that changes its width, against replicas",
            written_by="planner simulate --scenario elastic-ep --json",
            content=Shape(base=ElasticAnswer, plus={**asked, "targets": SloTargets}, nulls=True),
        ),
        "async-eplb": Document(
            title="Expert rebalancing with and without a stall",
            written_by="planner simulate --scenario async-eplb --json",
            content=Shape(base=RebalancingAnswer, plus={**asked, "ways": Many(way)}, nulls=True),
        ),
        "encoder": Document(
            title="A vision encoder beside prefill, and apart",
            written_by="planner encoder --json",
            content=Shape(
                plus={
                    "plan": str,
                    "model": str,
                    "encoder": str,
                    "rate_per_s": float,
                    "images_per_request": float,
                    "image_px": list[int],
                    "role": str,
                    "encoder_gpu": str,
                    "efficiency_prior": Estimate,
                    "sizing": EncoderSizing,
                    "separate_pool_pays": bool | None,
                    "unconfirmed": list[str],
                    "measured": bool,
                }
            ),
        ),
    }


def _studies() -> dict[str, Document]:
    from planner.domain.study import StudyLevel, StudyState, Trial, TrialState
    from planner.search.campaigns.document import Campaign
    from planner.search.studies.report import StudyReport
    from planner.search.studies.specs import EvalResult, EvalSpec

    summary = Shape(
        plus={
            "name": str,
            "level": StudyLevel,
            "sampler": str,
            "seed": int,
            "state": StudyState,
            "parent": str | None,
            "problem_hash": str,
            "trials": dict[TrialState, int],
            "budget_trials": int | None,
            "created_at": str | None,
            "updated_at": str | None,
        }
    )
    return {
        "studies": Document(
            title="All studies",
            written_by="planner studies list --json",
            content=Shape(plus={"studies": Many(summary)}),
        ),
        "study": Document(
            title="Front, pick and regret of a study",
            written_by="planner search --json, planner studies show --json, planner studies resume --json",
            content=StudyReport,
        ),
        "study-comparison": Document(
            title="Studies side by side",
            written_by="planner studies compare --json",
            content=Shape(plus={"same_problem": bool, "studies": list[StudyReport]}),
        ),
        "study-trials": Document(
            title="Every trial of a study",
            written_by="planner studies export --json",
            content=Shape(plus={"study": str, "trials": list[Trial]}),
        ),
        "campaign": Document(
            title="Benchmarks worth running next, in the order in which they tell most",
            written_by="planner campaign design --json, and its campaign.json",
            content=Campaign,
        ),
        "campaign-results": Document(
            title="Measurements taken from a campaign's runs",
            written_by="planner campaign run --json, planner campaign collect --json",
            content=Shape(plus={"runs": Many(Shape(plus={"run": str, "new": int, "known": int}))}),
        ),
        "shard-results": Document(
            title="Trials taken from shards",
            written_by="planner campaign gather --json",
            content=Shape(plus={"study": str, "new": int, "known": int}),
        ),
        "evaluation-spec": Document(
            title="One evaluation to run (a line of specs-*.jsonl)",
            written_by="planner campaign shards",
            content=EvalSpec,
        ),
        "evaluation-result": Document(
            title="One evaluation's outcome (a line of results-*.jsonl)",
            written_by="planner campaign work",
            content=EvalResult,
        ),
    }


def _measurements() -> dict[str, Document]:
    from planner.domain.errors import Issue
    from planner.domain.evaluation import Estimate
    from planner.domain.measurement import Measurement
    from planner.domain.provenance import Provenance
    from planner.measurements.fitting import FittedScope
    from planner.measurements.points import Metric

    stored = {"hash": str}
    answered = Shape(
        plus={
            "line": int,
            "id": str,
            "status": Literal["answered"],
            "output_denominator_gpus": int,
            "provenance": Provenance,
            "calibration": str,
            "interpolates": bool,
            "extrapolates": list[str],
            "scored": bool,
            "flags": list[str],
        },
        maybe={m.value: Estimate for m in Metric},
    )
    refused = Shape(plus={"line": int, "id": str, "status": Literal["refused"], "code": str, "reason": str})
    scores = Shape(plus=dict.fromkeys(("median_pct", "mean_pct", "p90_pct", "bias_pct", "covered", "half_width_pct"), float)
                   | {"n": int})  # fmt: skip
    order = Shape(plus={"sweeps": int, "median_tau": float | None, "mean_tau": float | None})
    group = Shape(plus={"kind": str, "label": str, "rows": int, "metrics": Keyed(Metric, scores)})
    return {
        "measurements": Document(
            title="Stored measurements",
            written_by="planner measurements list --json",
            content=Shape(plus={"measurements": Many(Shape(base=Measurement, plus=stored))}),
        ),
        "measurement": Document(
            title="One stored measurement",
            written_by="planner measurements show --json",
            content=Shape(base=Measurement, plus=stored),
        ),
        "measurements-import": Document(
            title="What was taken from result files",
            written_by="planner measurements import --json",
            content=Shape(
                plus={
                    "measurements": Many(Shape(base=Measurement, plus=stored, maybe={"new": bool})),
                    "skipped": list[Issue],
                    "ignored": list[str],
                },
                maybe={"new": int, "duplicates": int, "dry_run": bool},
            ),
        ),
        "calibration": Document(
            title="Calibrations fitted to measurements",
            written_by="planner calibrate --json",
            content=Shape(
                plus={
                    "stored": bool,
                    "scopes": Many(
                        Shape(base=FittedScope, plus={"used_by_default": bool, "why_not_used": str | None})
                    ),
                }
            ),
        ),
        "points": Document(
            title="Predictions for the rows of a file",
            written_by="planner estimate --points --json",
            content=Shape(
                plus={
                    "file": str,
                    "rows": int,
                    "answered": int,
                    "interval_level": float,
                    "points": Many(Either(answered, refused)),
                }
            ),
        ),
        "validation": Document(
            title="Predictions against measured rows",
            written_by="planner validate --json",
            content=Shape(
                plus={
                    "file": str,
                    "rows": int,
                    "answered": int,
                    "complete": int,
                    "scored": int,
                    "refused": dict[str, int],
                    "interval_level": float,
                    "order": Keyed(Metric, order),
                    "groups": Many(group),
                }
            ),
        ),
    }


def _manifests() -> dict[str, Document]:
    from planner.domain.deployment import DeploymentPlan, Role
    from planner.export.intent import Intent
    from planner.export.lint.core import RuleInfo, Severity

    finding = Shape(
        plus={
            "rule": str, "severity": Severity, "title": str, "file": str, "line": int, "object": str, "path": str,
            "what": str, "why": str, "fix": str, "source": str,
        }
    )  # fmt: skip
    difference = Shape(plus={"where": str, "planned": str | None, "running": str | None})
    return {
        "manifests": Document(
            title="The objects of a plan",
            written_by="planner export --json",
            content=Shape(plus={"plan": str, "target": str, "objects": list[dict[str, Any]]}),
        ),
        "plan-intent": Document(
            title="What a manifest cannot say about its plan, in its annotation",
            written_by="planner export",
            content=Intent,
        ),
        "lint": Document(
            title="Findings in manifests",
            written_by="planner lint --json",
            content=Shape(
                plus={"documents": int, "findings": Many(finding)}, maybe={"differences": Many(difference)}
            ),
        ),
        "lint-rules": Document(
            title="What the linter looks for",
            written_by="planner lint --list-rules --json",
            content=Shape(plus={"rules": list[RuleInfo]}),
        ),
        "import": Document(
            title="A plan read back from manifests",
            written_by="planner import --json",
            content=Shape(
                plus={"plan": DeploymentPlan, "extra_flags": dict[Role, list[str]], "notes": list[str]}
            ),
        ),
    }


def _cluster() -> dict[str, Document]:
    from console.cluster.applying import Applied
    from console.cluster.residuals import Measured
    from console.views.cluster import ClusterOverview
    from console.views.cluster_advice import Advice
    from console.views.cluster_drift import DriftReport
    from console.views.cluster_residuals import ResidualRow

    blocker = Shape(plus={"stage": str, "what": str, "why": str, "role": str, "count": int})
    pool = Shape(
        plus={
            "gpu": str,
            "fabric": str,
            "node": str,
            "gpus": int,
            "free_gpus": int | None,
            "gpus_per_node": int,
            "nodes": list[str],
            "rdma": list[str],
            "cpu_allocatable": int | None,
            "memory_gib_allocatable": int | None,
            "notes": list[str],
        }
    )
    row = Shape(base=ResidualRow, plus={"residual": float | None, "inside": bool | None})
    return {
        "cluster-status": Document(
            title="Roles, groups, endpoints and DP ranks of a cluster",
            written_by="planner cluster status --json, planner cluster watch --json (one line each)",
            content=Shape(
                base=ClusterOverview,
                plus={"blockers": Many(blocker), "endpoints_ready": int, "advice": list[Advice]},
            ),
        ),
        "cluster-profile": Document(
            title="Hardware of a cluster's nodes",
            written_by="planner cluster profile --json",
            content=Shape(plus={"pools": Many(pool), "left_out": dict[str, str]}),
        ),
        "cluster-residuals": Document(
            title="Predicted against measured",
            written_by="planner cluster residuals --json",
            content=Shape(
                plus={
                    "plan": str,
                    "concurrency": int,
                    "rows": Many(row),
                    "measured": Measured,
                    "extrapolates": list[str],
                }
            ),
        ),
        "drift": Document(
            title="A plan against what runs",
            written_by="planner diff --json",
            content=Shape(base=DriftReport, plus={"drifted": bool}),
        ),
        "apply": Document(
            title="What was applied, or would be",
            written_by="planner apply --json",
            content=Shape(base=DriftReport, plus={"drifted": bool, "applied": list[Applied]}),
        ),
    }


def _help() -> dict[str, Document]:
    from planner.explain import Better, Case, Kind

    head = {"kind": Kind, "name": str, "title": str}
    return {
        "topics": Document(
            title="Everything that can be explained",
            written_by="planner explain --json",
            content=Shape(plus={"topics": Many(Shape(plus=head))}),
        ),
        "topic": Document(
            title="A term, an error code, a rule or an exit status explained",
            written_by="planner explain TOPIC --json",
            content=Shape(
                plus={
                    **head,
                    "text": str,
                    "unit": str | None,
                    "better": Better | None,
                    "computed": str | None,
                    "aliases": list[str],
                    "severity": str | None,
                    "exit_status": int | None,
                    "cases": list[Case],
                    "shown_in": list[str],
                    "see": list[str],
                    "source": str | None,
                }
            ),
        ),
        "schemas": Document(
            title="The documents that have a schema",
            written_by="planner schemas list --json",
            content=Shape(plus={"schemas": Many(Shape(plus={"name": str, "title": str, "written_by": str}))}),
        ),
    }
