"""Read a deployment back into a plan. For our own manifests this is the inverse of `render`.

What the engines run decides: flags, sizes, replicas. The plan annotation adds what manifests cannot say (traffic, service
levels, planned load, profile ids); for manifests without it, `ImportHints` carries those values. Flags that have no place in
a plan are kept by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.domain.deployment import (
    All2AllBackend,
    DeploymentPlan,
    Eplb,
    Parallelism,
    Role,
    RolePlan,
    RouterPolicy,
    Speculation,
    Strategy,
)
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError, Issue
from planner.domain.model import ModelSpec
from planner.domain.workload import SloTargets, Workload
from planner.export.bundle import Bundle, bundle
from planner.export.command import kv_argument
from planner.export.engine_args import ParsedCommand
from planner.export.intent import Intent, RoleIntent, decode
from planner.export.lint.core import Facts
from planner.export.naming import PLAN_ANNOTATION
from planner.export.parse_router import policy_of
from planner.export.values import dig, number, table
from planner.export.view import EngineView
from planner.export.yaml import Document

# Flags that a plan, its layout or its dialect decides; everything else is kept as an extra.
PLANNED = frozenset(
    [
        "port",
        "served-model-name",
        "trust-remote-code",
        "tensor-parallel-size",
        "decode-context-parallel-size",
        "data-parallel-size",
        "data-parallel-size-local",
        "data-parallel-start-rank",
        "data-parallel-rank",
        "data-parallel-address",
        "data-parallel-rpc-port",
        "data-parallel-multi-port-external-lb",
        "data-parallel-external-lb",
        "data-parallel-hybrid-lb",
        "data-parallel-backend",
        "data-parallel-supervisor-port",
        "api-server-count",
        "headless",
        "nnodes",
        "node-rank",
        "master-addr",
        "master-port",
        "enable-expert-parallel",
        "all2all-backend",
        "moe-backend",
        "enable-dbo",
        "dbo-decode-token-threshold",
        "dbo-prefill-token-threshold",
        "enable-eplb",
        "eplb-config",
        "speculative-config",
        "kv-transfer-config",
        "kv-cache-dtype",
        "block-size",
        "gpu-memory-utilization",
        "max-model-len",
        "max-num-seqs",
        "max-num-batched-tokens",
        "enable-cumem-allocator",
        "no-disable-hybrid-kv-cache-manager",
        "tokenizer-mode",
        "disable-access-log-for-endpoints",
        "compilation-config",
    ]
)
_ROLES = {"prefill": Role.PREFILL, "decode": Role.DECODE}
_LL_TOKENS, _TOKENS, _SEQS = 256, 8192, 1024  # vLLM 0.33 defaults on 80 GB and larger GPUs
_ALIASES = {"naive": "allgather_reducescatter", "pplx": "allgather_reducescatter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportHints:
    """Values for manifests that carry no plan annotation; None means not given."""

    name: str | None = None
    gpu: str | None = None
    node: str | None = None
    fabric: str | None = None
    workload: Workload | None = None
    slo: SloTargets = field(default_factory=SloTargets)
    concurrency: int | None = None
    acceptance: float | None = None
    engine_version: str = "0.33.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A plan read from manifests, the flags it cannot hold by role, and what was assumed."""

    plan: DeploymentPlan
    extra_flags: Mapping[Role, tuple[str, ...]]
    notes: tuple[str, ...]


def import_plan(documents: Sequence[Document], *, facts: Facts, hints: ImportHints | None = None) -> Imported:
    """The plan that `documents` deploy.

    Raises InputError: ``import.no_engine``, ``import.roles``, ``import.model_unknown``, ``import.hardware_unknown``,
    ``import.workload_missing``, ``import.models_differ``, ``import.acceptance_missing`` and the annotation's own codes.
    """
    seen = bundle(documents, presets=True)
    if not seen.engines:
        raise InputError(
            Issue(
                code="import.no_engine",
                what="no vLLM engine in these documents",
                why="a plan is read from DisaggregatedSet, LeaderWorkerSet or Deployment objects that run vllm serve",
                fix="pass the manifests of the model servers",
            )
        )
    return _Reader(seen, facts, hints or ImportHints()).read()


class _Reader:
    """One import: collects issues and notes while it reads."""

    def __init__(self, seen: Bundle, facts: Facts, hints: ImportHints) -> None:
        self.seen = seen
        self.facts = facts
        self.hints = hints
        self.intent = _intent(seen)
        self.issues: list[Issue] = []
        self.notes: list[str] = []

    def read(self) -> Imported:
        engines = self._engines()
        for e, _ in engines:
            if e.command.problem:
                self._issue(
                    "command_unreadable",
                    f"{e.label}: {e.command.problem}",
                    "the vllm command cannot be split into words",
                    "balance its quotes",
                )
        model = self._model(engines)
        roles = tuple(self._role(e, r, model) for e, r in engines)
        workload = self.intent.workload if self.intent else self.hints.workload
        if workload is None:
            self._issue(
                "workload_missing",
                "no traffic is known",
                "manifests say nothing about prompt and output lengths",
                "--isl TOKENS --osl TOKENS",
            )
        if self.issues or model is None or workload is None:
            raise InputError(*self.issues)
        plan = self._plan(roles, model, workload)
        plan = replace(plan, router=policy_of(self.seen, plan, self.intent.router if self.intent else None))
        extras = {r: _extras(e.command) for e, r in engines}
        return Imported(
            plan=plan, extra_flags={r: x for r, x in extras.items() if x}, notes=tuple(self.notes)
        )

    def _plan(self, roles: tuple[RolePlan, ...], model: ModelSpec, workload: Workload) -> DeploymentPlan:
        intent, hints = self.intent, self.hints
        used = sum(r.gpus for r in roles)
        concurrency = intent.concurrency if intent else hints.concurrency
        if concurrency is None:
            serving = [r for r in roles if r.role is not Role.PREFILL]
            concurrency = sum(r.groups * r.parallelism.dp * r.max_num_seqs for r in serving)
            self.notes.append(f"requests in flight: {concurrency}, all sequences the engines take")
        lengths = [number(e.command.text("max-model-len")) for e in self.seen.engines]
        known = [x for x in lengths if x is not None]
        if not known:
            self.notes.append(f"max_model_len: {model.max_position}, the model's own")
        return DeploymentPlan(
            name=(intent.name if intent else None) or hints.name or self.seen.engines[0].name,
            model=intent.model if intent and self.facts.model(intent.model) == model else self._served(model),
            strategy=Strategy.DISAGGREGATED if len(roles) > 1 else Strategy.AGGREGATED,
            roles=roles,
            router=RouterPolicy(),
            engine=intent.engine if intent else "vllm",
            engine_version=intent.engine_version if intent else hints.engine_version,
            fabric=(intent.fabric if intent else hints.fabric) or self._fabric(),
            workload=workload,
            slo=intent.slo if intent else hints.slo,
            concurrency=concurrency,
            gpus_owned=max(used, intent.gpus_owned) if intent else used,
            max_model_len=max(known) if known else model.max_position,
            peak_prefill_tok_s_per_rank=intent.peak_prefill_tok_s_per_rank if intent else None,
        )

    def _engines(self) -> list[tuple[EngineView, Role]]:
        found = [(e, _ROLES.get(e.role or "", Role.AGGREGATED)) for e in self.seen.engines]
        if len(found) == 1 and not found[0][0].kv.get("kv_connector"):
            # aggregated guides label their pods decode; without a KV connector there is no second role
            found = [(found[0][0], Role.AGGREGATED)]
        roles = sorted(r.value for _, r in found)
        if roles not in (["aggregated"], ["decode", "prefill"]):
            self._issue(
                "roles",
                f"engines with roles {', '.join(roles)}",
                "a plan is one aggregated role, or one prefill and one decode role",
                "import one deployment at a time",
            )
            raise InputError(*self.issues)
        return sorted(found, key=lambda pair: list(Role).index(pair[1]))

    def _model(self, engines: list[tuple[EngineView, Role]]) -> ModelSpec | None:
        names: list[str] = []
        for e, _ in engines:
            candidates = (e.command.text("served-model-name"), e.command.model)
            names += [n for n in candidates if n and n not in names]
        found = [m for m in (self.facts.model(n) for n in names) if m is not None]
        if not found:
            self._issue(
                "model_unknown",
                f"model {', '.join(names) or 'not named'}",
                "sizes and structure come from the catalogue",
                "add its config.json to a profiles folder and pass --profiles DIR",
            )
            return None
        if len({m.id for m in found}) > 1:
            self._issue(
                "models_differ",
                f"engines serve {', '.join(sorted({m.id for m in found}))}",
                "prefill and decode must serve the same model",
                "import one deployment at a time",
            )
        return found[0]

    def _served(self, model: ModelSpec) -> str:
        """The repository that is served, when the catalogue knows it; else the model's own name."""
        for e in self.seen.engines:
            for name in (e.command.model, e.command.text("served-model-name") or ""):
                if "/" in name and self.facts.model(name) == model:
                    return name
        return model.id

    def _role(self, e: EngineView, role: Role, model: ModelSpec | None) -> RolePlan:
        intent = self.intent.roles.get(role.value) if self.intent else None
        gpu, node = self._hardware(e, intent)
        backend = self._backend(e)
        low = backend in (All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.NIXL_EP) and e.dp > 1
        return RolePlan(
            role=role,
            groups=e.replicas * (number(dig(e.document.value, "spec", "slices")) or 1),
            parallelism=Parallelism(
                tp=e.tp,
                dp=e.dp,
                expert_parallel=e.command.has("enable-expert-parallel"),
                dcp=e.integer("decode-context-parallel-size", 1),
            ),
            gpu=gpu,
            node=node,
            max_num_seqs=self._limit(e, "max-num-seqs", _LL_TOKENS if low else _SEQS),
            max_num_batched_tokens=self._limit(e, "max-num-batched-tokens", _LL_TOKENS if low else _TOKENS),
            kv_dtype=_kv(e.command, model),
            all2all=backend,
            dbo=e.command.has("enable-dbo"),
            eplb=_eplb(e.command),
            speculation=self._speculation(e, intent),
            gpu_memory_utilization=_float(e.command.text("gpu-memory-utilization"), 0.92),
            block_size=e.integer("block-size", 16),
            concurrency=intent.concurrency if intent else 0.0,
        )

    def _limit(self, e: EngineView, flag: str, default: int) -> int:
        value = number(e.command.text(flag))
        if value is None:
            self.notes.append(f"{e.label}: --{flag} unset, taken as vLLM's default {default}")
        return default if value is None else value

    def _backend(self, e: EngineView) -> All2AllBackend:
        text = e.command.text("all2all-backend") or e.env.get("VLLM_ALL2ALL_BACKEND") or ""
        text = _ALIASES.get(text, text)
        if text in {b.value for b in All2AllBackend}:
            return All2AllBackend(text)
        if text:
            self.notes.append(
                f"{e.label}: all2all backend '{text}' cannot be planned with; taken as the default"
            )
        return All2AllBackend.ALLGATHER_REDUCESCATTER

    def _hardware(self, e: EngineView, intent: RoleIntent | None) -> tuple[str, str]:
        if intent is not None:
            return intent.gpu, intent.node
        labels = {str(k): str(v) for k, v in table(e.pod.get("nodeSelector")).items()}
        shape = self.facts.node(labels) if labels else None
        gpu, node = (
            self.hints.gpu or (shape.gpu if shape else None),
            self.hints.node or (shape.id if shape else None),
        )
        if gpu is None or node is None:
            self._issue(
                "hardware_unknown",
                f"{e.label}: GPU type unknown",
                "its node selector names no node shape of the catalogue",
                "--gpu NAME --cluster NAME",
            )
        return gpu or "", node or ""

    def _fabric(self) -> str:
        labels = table(self.seen.engines[0].pod.get("nodeSelector"))
        shape = self.facts.node({str(k): str(v) for k, v in labels.items()})
        return shape.fabric if shape else "none"

    def _speculation(self, e: EngineView, intent: RoleIntent | None) -> Speculation | None:
        config = e.command.json("speculative-config")
        tokens = number((config or {}).get("num_speculative_tokens"))
        if not config or not tokens:
            return None
        acceptance = intent.acceptance if intent else None
        acceptance = self.hints.acceptance if acceptance is None else acceptance
        if acceptance is None:
            self._issue(
                "acceptance_missing",
                f"{e.label}: {tokens} drafted tokens",
                "how often drafts are accepted is a measurement, not a flag",
                "--acceptance 0..1",
            )
            return None
        return Speculation(draft_tokens=tokens, acceptance=acceptance)

    def _issue(self, code: str, what: str, why: str, fix: str) -> None:
        self.issues.append(Issue(code=f"import.{code}", what=what, why=why, fix=fix))


def _intent(seen: Bundle) -> Intent | None:
    for document in seen.documents:
        text = dig(document.value, "metadata", "annotations", PLAN_ANNOTATION)
        if isinstance(text, str):
            return decode(text, where=document.source)
    return None


def _kv(command: ParsedCommand, model: ModelSpec | None) -> KvDtype:
    text = command.text("kv-cache-dtype") or "auto"
    if text.startswith(("fp8", "nvfp4")):
        return KvDtype.FP8
    if text == "auto" and model is not None and kv_argument(KvDtype.BF16, model) != "auto":
        return KvDtype.FP8  # the model defaults to fp8, so auto means fp8
    return KvDtype.BF16


def _eplb(command: ParsedCommand) -> Eplb | None:
    if not command.has("enable-eplb"):
        return None
    config = command.json("eplb-config") or {}
    standard = Eplb()
    return Eplb(
        redundant_experts=number(config.get("num_redundant_experts")) or 0,
        window_size=number(config.get("window_size")) or standard.window_size,
        step_interval=number(config.get("step_interval")) or standard.step_interval,
        use_async=bool(config.get("use_async", True)),
    )


def _float(text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        return default


def _extras(command: ParsedCommand) -> tuple[str, ...]:
    kept = [
        f"--{name}" if value is None else f"--{name} {value}"
        for name, value in command.args.items()
        if name.split(".", 1)[0] not in PLANNED
    ]
    return tuple(kept)
