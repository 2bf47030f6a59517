"""From a DeploymentPlan to Kubernetes objects (target llm-d)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.domain.deployment import All2AllBackend, DeploymentPlan, Role, RolePlan, Strategy
from planner.domain.errors import InputError, Issue
from planner.domain.hardware import Vendor
from planner.domain.model import ModelSpec
from planner.export import network
from planner.export.checks import check_plan
from planner.export.command import engine_command
from planner.export.dialects import DIALECTS, Dialect, ImageVariant, find_dialect, parse_version
from planner.export.environment import DEEPEP_NVSHMEM, nvlink_multinode
from planner.export.epp import router_objects
from planner.export.intent import encode
from planner.export.layout import Balancing, RoleLayout, lay_out
from planner.export.naming import PLAN_ANNOTATION, VERSION_ANNOTATION, check_namespace, slug
from planner.export.objects import Manifest
from planner.export.options import ExportOptions, RoleHardware, RouterForm, SourceKind
from planner.export.placement import role_label
from planner.export.pods import RoleContext, startup_seconds
from planner.export.providers import ProviderOverlay, check_offered, find_provider, overlay_for, uses_roce
from planner.export.router import router_config
from planner.export.workloads import deployment, disaggregated_set, leader_worker_set

MIN_ROUTE_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan with all choices made: names, dialect, images and the layout of each role."""

    plan: DeploymentPlan
    model: ModelSpec
    options: ExportOptions
    name: str
    dialect: Dialect
    roles: tuple[RoleContext, ...]

    @property
    def pool_ports(self) -> tuple[int, ...]:
        """Target ports of the pool: the widest pod's; narrower pods say so in an annotation."""
        return max((r.layout.router_ports for r in self.roles), key=len)

    @property
    def overlay(self) -> ProviderOverlay:
        """The provider of the decoding role."""
        return self.roles[-1].overlay

    def header(self) -> tuple[str, ...]:
        """Comment lines: which plan, which prediction, which versions."""
        plan = self.plan
        lines = [
            f"{plan.name}: {plan.model}, {plan.label()}",
            f"written by {self.options.created_by} for {self.dialect.title}; provider {self.overlay.id}",
            (
                f"{plan.gpus_used} of {plan.gpus_owned} GPUs; prompt {plan.workload.isl}, "
                f"output {plan.workload.osl} tokens; {plan.concurrency} requests in flight"
            ),
        ]
        lines += [f"needs: {n.replace('NAME', self.name)}" for n in self.overlay.needs]
        if self.options.model_source.kind is SourceKind.HUB:
            source = self.options.model_source
            lines.append(
                f"needs: the Secret {source.secret} with the key {source.secret_key} (a token of the hub)"
            )
        if self.options.gateway is None and self.options.router is RouterForm.RAW:
            lines.append(
                "no Gateway named: requests reach the pool once a route points at it (--set gateway=NAME), "
                "or use --target helm-values for the standalone router"
            )
        if self.options.prediction:
            lines.append(f"prediction: {self.options.prediction}")
        wanted, have = parse_version(plan.engine_version), self.dialect.vllm
        if wanted[:2] != have[:2]:
            lines.append(
                f"the plan was priced with {plan.engine} {plan.engine_version}; this dialect runs vLLM "
                + ".".join(map(str, have))
            )
        return tuple(lines)


def render(
    plan: DeploymentPlan,
    *,
    model: ModelSpec,
    hardware: Mapping[Role, RoleHardware],
    options: ExportOptions | None = None,
) -> tuple[Manifest, ...]:
    """All objects of `plan`, in the order they should be applied.

    `hardware` holds the profiles each role names. Raises InputError with ``export.*`` codes when the plan cannot be
    deployed as it is; the rule is part of the message.
    """
    prepared = prepare(plan, model=model, hardware=hardware, options=options or ExportOptions())
    return manifests(prepared)


def prepare(
    plan: DeploymentPlan,
    *,
    model: ModelSpec,
    hardware: Mapping[Role, RoleHardware],
    options: ExportOptions,
) -> Prepared:
    """Check `plan` against its profiles and make every choice that the objects share."""
    check_plan(plan, model, hardware)
    if options.namespace is not None:
        check_namespace(options.namespace)
    name = options.name or slug(plan.name)
    disaggregated = plan.strategy is Strategy.DISAGGREGATED
    layouts = {
        r.role: lay_out(
            r,
            strategy=plan.strategy,
            gpus_per_node=hardware[r.role].node.gpus_per_node,
            moe=model.moe is not None,
        )
        for r in plan.roles
    }
    overlays = {
        r.role: find_provider(options.provider) if options.provider else overlay_for(hardware[r.role])
        for r in plan.roles
    }
    for r in plan.roles:
        check_offered(overlays[r.role], hardware[r.role])
    variant = _common_variant(
        [_variant(r, layouts[r.role], hardware[r.role], overlays[r.role], disaggregated) for r in plan.roles]
    )
    dialect = _choose_dialect(options, variant)
    fabric_domain = any(nvlink_multinode(layouts[r.role], hardware[r.role]) for r in plan.roles)
    roles = tuple(
        RoleContext(
            plan=r,
            layout=layouts[r.role],
            hardware=hardware[r.role],
            overlay=overlays[r.role],
            foreign=options.provider is not None and options.provider != overlay_for(hardware[r.role]).id,
            model=model,
            model_name=checkpoint_name(plan, model),
            options=options,
            disaggregated=disaggregated,
            name=name,
            engine_image=_image(options.images.engine, dialect.images.engine.get(variant), dialect, "engine"),
            sidecar_image=_image(options.images.sidecar, dialect.images.sidecar, dialect, "sidecar")
            if disaggregated
            else "",
            claim_template=network.claim_template_name(name, overlays[r.role]),
            compute_domain_template=f"{name}-nvlink-channel"
            if fabric_domain and hardware[r.role].gpu.vendor is Vendor.NVIDIA
            else None,
        )
        for r in plan.roles
    )
    prepared = Prepared(plan=plan, model=model, options=options, name=name, dialect=dialect, roles=roles)
    _check_dialect(prepared)
    return prepared


def manifests(prepared: Prepared) -> tuple[Manifest, ...]:
    """The objects of a prepared plan."""
    p, options = prepared, prepared.options
    out: list[Manifest] = [network.service_account(p.name, options)]
    if any(r.compute_domain_template for r in p.roles):
        out.append(network.compute_domain(p.name, options))
    templates = {r.claim_template for r in p.roles if r.claim_template and _networked(r)}
    if templates:
        out.append(network.claim_template(p.name, p.overlay, options))
    out += _workloads(p)
    if options.router is not RouterForm.NONE:
        out += _routing(p)
    if options.monitoring:
        for r in p.roles:
            names = tuple(f"rank{i}" for i in range(r.layout.ranks_per_pod))
            label = role_label(r.layout)
            out.append(network.pod_monitor(p.name, label, names, options=options, overlay=r.overlay))
    return tuple(out)


def _routing(p: Prepared) -> list[Manifest]:
    if p.options.router is RouterForm.HELM:
        return []
    image = _image(p.options.images.router, p.dialect.images.router, p.dialect, "router")
    out = [network.inference_pool(p.name, p.pool_ports, p.options)]
    config = router_config(p.plan, p.dialect)
    out += router_objects(p.name, config, image=image, options=p.options)
    out += network.objectives(p.name, p.options, p.dialect)
    route = network.http_route(
        p.name, options=p.options, overlay=p.overlay, timeout_s=route_timeout_s(p.plan)
    )
    rule = network.destination_rule(p.name, p.options)
    out += [m for m in (route, rule) if m is not None]
    return out


def checkpoint_name(plan: DeploymentPlan, model: ModelSpec) -> str:
    """The repository the plan names (a revision or copy of `model`), or the model's own when the plan uses a short name."""
    return plan.model if "/" in plan.model else model.id


def route_timeout_s(plan: DeploymentPlan) -> int:
    """Twice the longest request the service levels allow, at least the charts' 300 s."""
    tpot = plan.slo.tpot_limit_ms or 100.0
    ttft = plan.slo.ttft_ms or 30_000.0
    seconds = 2.0 * (ttft + tpot * plan.workload.osl * (1.0 + 2.0 * plan.workload.length_cv)) / 1000.0
    return max(MIN_ROUTE_TIMEOUT_S, int(-(-seconds // 60) * 60))


def _networked(context: RoleContext) -> bool:
    return context.disaggregated or context.layout.pods_per_group > 1


def _workloads(p: Prepared) -> list[Manifest]:
    meta = {VERSION_ANNOTATION: p.options.created_by, PLAN_ANNOTATION: encode(p.plan)}
    ports, length = p.pool_ports, p.plan.max_model_len
    roles = p.roles
    single = all(
        r.layout.balancing in (Balancing.SINGLE, Balancing.MULTI_PORT) and r.layout.pods_per_group == 1
        for r in roles
    )
    amd = any(r.hardware.gpu.vendor is Vendor.AMD for r in roles)
    if len(roles) > 1 and p.options.disaggregated_set and not (amd and single):
        return [disaggregated_set(roles, meta=meta, pool_ports=ports, max_model_len=length)]
    out = []
    for r in roles:
        name = f"{p.name}-{r.layout.role.value}" if len(roles) > 1 else p.name
        one_pod = r.layout.pods_per_group == 1
        if one_pod and (len(roles) == 1 or amd):
            out.append(
                deployment(
                    r,
                    name=name,
                    meta=meta,
                    pool_ports=ports,
                    max_model_len=length,
                    startup_s=startup_seconds(p.model, p.options),
                )
            )
        else:
            out.append(leader_worker_set(r, name=name, meta=meta, pool_ports=ports, max_model_len=length))
    return out


# --- choices and checks ---


def _variant(
    role: RolePlan,
    layout: RoleLayout,
    hardware: RoleHardware,
    overlay: ProviderOverlay,
    disaggregated: bool,
) -> ImageVariant:
    if hardware.gpu.vendor is Vendor.AMD:
        return ImageVariant.ROCM
    if overlay.efa and (disaggregated or layout.pods_per_group > 1):
        return ImageVariant.EFA
    crosses = layout.pods_per_group > 1 and not nvlink_multinode(layout, hardware)
    if role.all2all in DEEPEP_NVSHMEM and crosses and uses_roce(overlay, hardware):
        return ImageVariant.LLM_D_CUDA
    return ImageVariant.UPSTREAM


def _common_variant(variants: Sequence[ImageVariant]) -> ImageVariant:
    """One image for both roles: the handshake compares engine versions, so the more demanding role decides."""
    order = (ImageVariant.ROCM, ImageVariant.EFA, ImageVariant.LLM_D_CUDA, ImageVariant.UPSTREAM)
    return min(variants, key=order.index)


def _choose_dialect(options: ExportOptions, variant: ImageVariant) -> Dialect:
    """The named dialect, else the first that has the image the plan needs."""
    if options.dialect is not None:
        return find_dialect(options.dialect)
    for dialect in DIALECTS:
        if options.images.engine is not None or variant in dialect.images.engine:
            return dialect
    return DIALECTS[0]


def _image(override: str | None, default: str | None, dialect: Dialect, which: str) -> str:
    image = override or default
    if not image:
        raise InputError(
            Issue(
                code="export.image_missing",
                what=f"dialect '{dialect.id}' has no tested {which} image for this plan",
                why="RoCE with DeepEP, EFA and unreleased routers need builds that not every dialect has",
                fix=f"--set image.{which}=REFERENCE, or --dialect llm-d-0.9",
                where="--dialect",
            )
        )
    last = image.rsplit("/", 1)[-1]
    if "@sha256:" not in image and (":" not in last or last.endswith(":latest")):
        raise InputError(
            Issue(
                code="export.image_unpinned",
                what=f"{which} image '{image}'",
                why="a moving tag gives prefill and decode different engines after a restart",
                fix="name a version tag or a digest",
                where=f"--set image.{which}",
            )
        )
    return image


def _check_dialect(p: Prepared) -> None:
    issues: list[Issue] = []
    if len(p.pool_ports) > p.dialect.max_target_ports:
        issues.append(
            Issue(
                code="export.too_many_ports",
                what=f"{len(p.pool_ports)} ranks per pod",
                why=f"InferencePool takes {p.dialect.max_target_ports} target ports in this dialect",
                fix="a newer --dialect, or fewer DP ranks per pod",
            )
        )
    for r in p.roles:
        command = engine_command(
            r.plan,
            r.layout,
            model=p.model,
            model_argument=r.model_name,
            served_name=r.model_name,
            max_model_len=p.plan.max_model_len,
            hardware=r.hardware,
            disaggregated=r.disaggregated,
            in_lws=True,
        )
        issues += command.check(p.dialect.vllm)
        if _networked(r) and r.overlay.id == "gke-tcpx":
            issues.append(
                Issue(
                    code="export.fabric_unsupported",
                    what=f"{r.plan.role.value}: traffic between pods on '{r.hardware.fabric.id}'",
                    why="TCPX offers no RDMA: neither NIXL nor expert parallel across pods has a tested set-up on it",
                    fix="use aggregated groups within one node, or nodes with RDMA",
                )
            )
        crosses = r.layout.pods_per_group > 1 and not nvlink_multinode(r.layout, r.hardware)
        if r.plan.all2all in DEEPEP_NVSHMEM and crosses and r.overlay.efa:
            issues.append(
                Issue(
                    code="export.deepep_efa",
                    what=f"{r.plan.role.value}: {r.plan.all2all.value} across pods on EFA",
                    why="DeepEP's transport needs Mellanox NICs (DeepEP#759)",
                    fix="plan with allgather_reducescatter or nixl_ep, or groups within one node",
                )
            )
        if r.plan.all2all is All2AllBackend.DEEPEP_LOW_LATENCY and r.layout.pods_per_group > 1:
            mnnvl = nvlink_multinode(r.layout, r.hardware)
            if not mnnvl and not r.hardware.fabric.gpu_initiated:
                issues.append(
                    Issue(
                        code="export.ibgda",
                        what=f"{r.plan.role.value}: deepep_low_latency across pods on fabric '{r.hardware.fabric.id}'",
                        why="its kernels start RDMA from the GPU (IBGDA), which this fabric does not offer",
                        fix="use allgather_reducescatter or deepep_high_throughput",
                    )
                )
    if issues:
        raise InputError(*issues)
