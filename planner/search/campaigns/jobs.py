"""Campaigns and simulation shards as Kubernetes Jobs, queued by Kueue. Kubernetes is the engine; nothing here talks to it.

A run is one Job with one pod: a native sidecar applies the plan's manifests, waits until they serve and, when the pod ends
for whatever reason, deletes them; the load generator is the main container and starts when the sidecar says so. The Job is
created suspended under a queue name, so Kueue decides when it starts; its deadline is what the GPU-hour budget leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from planner.domain.errors import Issue, NotFeasibleError
from planner.export.naming import label_value, slug
from planner.export.objects import (
    ConfigMapSource,
    Container,
    EmptyDir,
    EnvVar,
    Manifest,
    ObjectMeta,
    PodSpec,
    PodTemplate,
    PvcSource,
    Resources,
    TemplateMeta,
    Volume,
    VolumeMount,
)
from planner.export.workloads import GUIDE_LABEL
from planner.search.campaigns.document import Campaign, CampaignRun
from planner.search.campaigns.load import Endpoint, Generator, command

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
CAMPAIGN_LABEL: Final = "wideplan/campaign"
RUN_LABEL: Final = "wideplan/run"
GRACE_S: Final = 300  # for the sidecar to delete what it deployed
TTL_S: Final = 86_400
CONFIG_MAP_LIMIT: Final = 900_000  # bytes; etcd refuses objects above 1 MiB
_READY: Final = "/shared/ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecProbe:
    """Startup probe that runs a command."""

    exec: Mapping[str, tuple[str, ...]]
    period_seconds: int = 5
    failure_threshold: int = 720


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarContainer(Container):
    """A native sidecar whose startup probe runs a command."""

    restart_policy: str | None = "Always"
    startup_probe: ExecProbe | None = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPodSpec(PodSpec):
    """A pod that is not restarted in place."""

    restart_policy: str = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """batch/v1 Job."""

    suspend: bool | None = None
    completions: int | None = None
    parallelism: int | None = None
    completion_mode: str | None = None
    backoff_limit: int = 0
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int = TTL_S
    template: PodTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """RBAC rule."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a user chooses about the Jobs. `budget_gpu_hours` None: no limit beyond each run's own deadline."""

    queue: str
    claim: str  # PersistentVolumeClaim for the results
    load_image: str
    kubectl_image: str  # with a shell
    namespace: str | None = None
    budget_gpu_hours: float | None = None
    generator: Generator = Generator.GUIDELLM
    endpoint: str = "http://{name}"  # {name}: of the run's deployment
    deadline_factor: float = 3.0  # of a run's estimated time


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedCampaign:
    """Objects in the order they should be applied, and the runs that the budget leaves out."""

    manifests: tuple[Manifest, ...]
    left_out: tuple[str, ...] = ()
    gpu_hours: float = 0.0


def run_name(campaign: Campaign, run: CampaignRun) -> str:
    """Name of a run's Job and deployment: short enough for every object made from it."""
    return f"{slug(campaign.name)[:28].rstrip('-')}-{run.id.removeprefix('run-')}"


def render_campaign(
    campaign: Campaign, deployments: Mapping[str, str], options: JobOptions
) -> RenderedCampaign:
    """One suspended Job per run that the budget holds. `deployments`: run id -> its manifests as one YAML stream.

    Runs come in the campaign's order; one that does not fit the rest of the budget is left out. Raises NotFeasibleError
    ``campaign.over_budget`` when none fits.
    """
    kept: list[CampaignRun] = []
    used = 0.0
    for run in campaign.runs:
        if options.budget_gpu_hours is not None and used + run.gpu_hours > options.budget_gpu_hours + 1e-9:
            continue
        kept.append(run)
        used += run.gpu_hours
    if not kept:
        first = min(campaign.runs, key=lambda r: r.gpu_hours)
        raise NotFeasibleError(
            Issue(
                code="campaign.over_budget",
                what=f"a budget of {options.budget_gpu_hours:g} GPU-hours",
                why=f"the cheapest run, {first.id}, is estimated at {first.gpu_hours:g}",
                fix=f"--budget-gpu-hours {first.gpu_hours:g} or more",
                where="--budget-gpu-hours",
            )
        )
    # shared out, so that the deadlines together cannot overdraw the budget
    slack = max((options.budget_gpu_hours or 0.0) - used, 0.0) / len(kept)
    manifests = [*_access(campaign, options)]
    for run in kept:
        manifests += _run_objects(campaign, run, deployments[run.id], options, slack_gpu_hours=slack)
    return RenderedCampaign(
        manifests=tuple(manifests),
        left_out=tuple(r.id for r in campaign.runs if r not in kept),
        gpu_hours=round(used, 2),
    )


def _access(campaign: Campaign, options: JobOptions) -> tuple[Manifest, ...]:
    """The account of the sidecars: it may create and delete what a plan's manifests hold, in its namespace only."""
    name = f"{slug(campaign.name)[:40].rstrip('-')}-runner"
    meta = ObjectMeta(
        name=name, namespace=options.namespace, labels={CAMPAIGN_LABEL: label_value(campaign.name)}
    )
    verbs = ("get", "list", "watch", "create", "patch", "delete")
    rules = (
        PolicyRule(
            api_groups=("",), resources=("services", "configmaps", "serviceaccounts", "pods"), verbs=verbs
        ),
        PolicyRule(api_groups=("apps",), resources=("deployments", "statefulsets"), verbs=verbs),
        PolicyRule(
            api_groups=("leaderworkerset.x-k8s.io", "disaggregatedset.x-k8s.io"),
            resources=("*",),
            verbs=verbs,
        ),
        PolicyRule(
            api_groups=(
                "inference.networking.k8s.io",
                "inference.networking.x-k8s.io",
                "gateway.networking.k8s.io",
            ),
            resources=("*",),
            verbs=verbs,
        ),
        PolicyRule(
            api_groups=("rbac.authorization.k8s.io",), resources=("roles", "rolebindings"), verbs=verbs
        ),
    )
    subject = {"kind": "ServiceAccount", "name": name, "namespace": options.namespace or "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    return (
        Manifest(api_version="v1", kind="ServiceAccount", metadata=meta),
        Manifest(
            api_version="rbac.authorization.k8s.io/v1", kind="Role", metadata=meta, body={"rules": rules}
        ),
        Manifest(
            api_version="rbac.authorization.k8s.io/v1",
            kind="RoleBinding",
            metadata=meta,
            body={"roleRef": reference, "subjects": (subject,)},
        ),
    )


def _run_objects(
    campaign: Campaign, run: CampaignRun, deployment: str, options: JobOptions, *, slack_gpu_hours: float
) -> list[Manifest]:
    name = run_name(campaign, run)
    labels = {CAMPAIGN_LABEL: label_value(campaign.name), RUN_LABEL: run.id}
    minutes = run.gpu_hours * 60.0 / max(run.plan.gpus_used, 1)
    seconds = minutes * 60.0 * options.deadline_factor
    if options.budget_gpu_hours is not None:
        # a run may overdraw its estimate only by its part of what the budget has to spare
        seconds = min(seconds, (run.gpu_hours + slack_gpu_hours) * 3600.0 / max(run.plan.gpus_used, 1))
    manifests = Manifest(
        api_version="v1",
        kind="ConfigMap",
        metadata=ObjectMeta(name=f"{name}-manifests", namespace=options.namespace, labels=labels),
        body={"data": {"deployment.yaml": deployment}},
        comments=(
            (
                f"{run.id}: {run.plan.label()} at {run.plan.concurrency} requests in flight, "
                f"{run.gpu_hours:g} GPU-hours estimated"
            ),
        ),
    )
    job = Manifest(
        api_version="batch/v1",
        kind="Job",
        metadata=ObjectMeta(
            name=name, namespace=options.namespace, labels={**labels, QUEUE_LABEL: options.queue}
        ),
        body={
            "spec": JobSpec(
                suspend=True,  # Kueue starts it
                active_deadline_seconds=max(int(seconds), 60),
                template=PodTemplate(
                    metadata=TemplateMeta(labels=labels), spec=_run_pod(campaign, run, name, options)
                ),
            )
        },
    )
    return [manifests, job]


def _run_pod(campaign: Campaign, run: CampaignRun, name: str, options: JobOptions) -> JobPodSpec:
    endpoint = Endpoint(url=options.endpoint.format(name=name), model=run.served_name)
    arguments = command(options.generator, run, endpoint, Path(f"/results/{run.id}.json"))
    shared = VolumeMount(name="shared", mount_path="/shared")
    return JobPodSpec(
        service_account_name=f"{slug(campaign.name)[:40].rstrip('-')}-runner",
        termination_grace_period_seconds=GRACE_S,
        init_containers=(
            SidecarContainer(
                name="deployment",
                image=options.kubectl_image,
                command=("/bin/sh", "-c", deploy_script(name)),
                startup_probe=ExecProbe(exec={"command": ("test", "-f", _READY)}),
                volume_mounts=(
                    shared,
                    VolumeMount(name="manifests", mount_path="/manifests", read_only=True),
                ),
                resources=Resources(requests={"cpu": "100m", "memory": "128Mi"}),
            ),
        ),
        containers=(
            Container(
                name="load",
                image=options.load_image,
                command=arguments[:1],
                args=arguments[1:],
                volume_mounts=(shared, VolumeMount(name="results", mount_path="/results")),
                resources=Resources(requests={"cpu": "4", "memory": "8Gi"}),
            ),
        ),
        volumes=(
            Volume(name="shared", empty_dir=EmptyDir()),
            Volume(name="manifests", config_map=ConfigMapSource(name=f"{name}-manifests")),
            Volume(name="results", persistent_volume_claim=PvcSource(claim_name=options.claim)),
        ),
    )


def deploy_script(name: str) -> str:
    """Shell of the sidecar: apply, wait, say so, wait for the end, and delete in any case."""
    return "\n".join(
        (
            "set -eu",
            "cleanup() { kubectl delete --ignore-not-found --wait=false -f /manifests/deployment.yaml; }",
            "trap cleanup EXIT",
            "trap 'exit 0' TERM INT",
            "kubectl apply --server-side -f /manifests/deployment.yaml",
            f"kubectl wait pod -l {GUIDE_LABEL}={name} --for=condition=Ready --timeout=3600s",
            f"touch {_READY}",
            "while true; do sleep 5 & wait $!; done",
        )
    )


# --- simulation shards ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """An indexed Job that evaluates specifications: `image` holds this program, `claim` takes the results."""

    name: str
    image: str
    claim: str
    shards: int
    parallelism: int = 8
    queue: str | None = None
    namespace: str | None = None
    cpu: str = "1"
    memory: str = "2Gi"
    labels: Mapping[str, str] = field(default_factory=dict)


def render_shards(specs: Sequence[str], problem: str, options: ShardOptions) -> tuple[Manifest, ...]:
    """An indexed Job over `specs` (JSON lines): pod i evaluates those whose position is i modulo the shards.

    Specifications and the problem travel in ConfigMaps, as many as their size asks for.
    """
    labels = {**options.labels, "wideplan/shards": label_value(options.name)}
    parts = _parts(specs)
    maps = [
        Manifest(
            api_version="v1",
            kind="ConfigMap",
            metadata=ObjectMeta(name=f"{options.name}-specs-{i}", namespace=options.namespace, labels=labels),
            body={"data": {f"specs-{i:03d}.jsonl": part}},
        )
        for i, part in enumerate(parts)
    ]
    maps.insert(
        0,
        Manifest(
            api_version="v1",
            kind="ConfigMap",
            metadata=ObjectMeta(name=f"{options.name}-problem", namespace=options.namespace, labels=labels),
            body={"data": {"problem.json": problem}},
        ),
    )
    mounts = [VolumeMount(name="problem", mount_path="/input/problem", read_only=True)]
    volumes = [Volume(name="problem", config_map=ConfigMapSource(name=f"{options.name}-problem"))]
    for i in range(len(parts)):
        mounts.append(VolumeMount(name=f"specs-{i}", mount_path=f"/input/specs-{i}", read_only=True))
        volumes.append(
            Volume(name=f"specs-{i}", config_map=ConfigMapSource(name=f"{options.name}-specs-{i}"))
        )
    container = Container(
        name="evaluate",
        image=options.image,
        command=("planner", "campaign", "work", "/input"),
        args=("--shards", str(options.shards), "--out", "/results"),
        env=(EnvVar(name="OPENBLAS_NUM_THREADS", value="1"),),
        volume_mounts=(*mounts, VolumeMount(name="results", mount_path="/results")),
        resources=Resources(
            requests={"cpu": options.cpu, "memory": options.memory}, limits={"memory": options.memory}
        ),
    )
    job = Manifest(
        api_version="batch/v1",
        kind="Job",
        metadata=ObjectMeta(
            name=options.name,
            namespace=options.namespace,
            labels={**labels, **({QUEUE_LABEL: options.queue} if options.queue else {})},
        ),
        body={
            "spec": JobSpec(
                suspend=True if options.queue else None,
                completions=options.shards,
                parallelism=min(options.parallelism, options.shards),
                completion_mode="Indexed",
                backoff_limit=options.shards,
                template=PodTemplate(
                    metadata=TemplateMeta(labels=labels),
                    spec=JobPodSpec(
                        containers=(container,),
                        volumes=(
                            *volumes,
                            Volume(
                                name="results", persistent_volume_claim=PvcSource(claim_name=options.claim)
                            ),
                        ),
                    ),
                ),
            )
        },
    )
    return (*maps, job)


def _parts(lines: Sequence[str]) -> list[str]:
    """Lines joined into documents below the size limit of a ConfigMap."""
    parts: list[list[str]] = [[]]
    size = 0
    for line in lines:
        needed = len(json.dumps(line)) + 1
        if parts[-1] and size + needed > CONFIG_MAP_LIMIT:
            parts.append([])
            size = 0
        parts[-1].append(line)
        size += needed
    return ["\n".join(p) + "\n" for p in parts]
