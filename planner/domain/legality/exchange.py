"""Rules on the all-to-all backend: what it needs of the GPU, the fabric and the group."""

from __future__ import annotations

from planner.domain.deployment import All2AllBackend
from planner.domain.dtypes import WeightFormat
from planner.domain.hardware import FabricKind, ScaleUpKind, Vendor
from planner.domain.legality.case import RoleCase
from planner.domain.legality.rule import Message, Rule

_DEFAULT = All2AllBackend.ALLGATHER_REDUCESCATTER
DEEPEP = frozenset(
    {
        All2AllBackend.DEEPEP_HIGH_THROUGHPUT,
        All2AllBackend.DEEPEP_LOW_LATENCY,
        All2AllBackend.DEEPEP_V2,
    }
)
FLASHINFER = frozenset(
    {All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED, All2AllBackend.FLASHINFER_NVLINK_TWO_SIDED}
)
MORI = frozenset({All2AllBackend.MORI_HIGH_THROUGHPUT, All2AllBackend.MORI_LOW_LATENCY})
LOW_LATENCY = frozenset({All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.NIXL_EP})
_NVIDIA_ONLY = DEEPEP | FLASHINFER | {All2AllBackend.NIXL_EP}
_GPU_INITIATED = frozenset({All2AllBackend.DEEPEP_LOW_LATENCY, All2AllBackend.DEEPEP_V2})
_RDMA = frozenset({All2AllBackend.DEEPEP_HIGH_THROUGHPUT, All2AllBackend.NIXL_EP}) | MORI
# Legacy DeepEP asserts that ranks hold equally many experts; NIXL EP keeps its interface.
_EVEN_EXPERTS = frozenset(
    {
        All2AllBackend.DEEPEP_HIGH_THROUGHPUT,
        All2AllBackend.DEEPEP_LOW_LATENCY,
        All2AllBackend.NIXL_EP,
    }
)
_MORI_ARCHITECTURES = ("gfx942", "gfx950")
# vLLM 0.33 prepare_finalize/deepep_ll.py; used when the engine profile lists none.
_LL_HIDDEN_SIZES = (2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192)


def _not_default(c: RoleCase) -> bool:
    return c.role.all2all is not _DEFAULT


def _exchanges(c: RoleCase) -> bool:
    return c.exchanges


def _exchanges_message(c: RoleCase) -> Message:
    return Message(
        f"backend {c.role.all2all} with DP {c.dp} and expert parallel {'on' if c.ep_on else 'off'}",
        "the engine uses an all-to-all backend only for expert parallel with DP above 1",
        f"use {_DEFAULT}, or DP above 1 with expert parallel",
    )


def _nvidia_backend(c: RoleCase) -> bool:
    return c.role.all2all in _NVIDIA_ONLY


def _is_nvidia(c: RoleCase) -> bool:
    return c.pool.gpu.vendor is Vendor.NVIDIA


def _is_nvidia_message(c: RoleCase) -> Message:
    return Message(
        f"backend {c.role.all2all} on {c.pool.gpu.name}",
        "its kernels are CUDA kernels",
        "use mori_high_throughput or mori_low_latency"
        if c.pool.gpu.vendor is Vendor.AMD
        else f"use {_DEFAULT}",
    )


def _mori(c: RoleCase) -> bool:
    return c.role.all2all in MORI


def _is_mori_gpu(c: RoleCase) -> bool:
    gpu = c.pool.gpu
    if gpu.vendor is not Vendor.AMD:
        return False
    names = f"{gpu.architecture} {gpu.compute_capability}".lower()
    return any(a in names for a in _MORI_ARCHITECTURES)


def _is_mori_gpu_message(c: RoleCase) -> Message:
    return Message(
        f"backend {c.role.all2all} on {c.pool.gpu.name} ({c.pool.gpu.architecture})",
        "MoRI supports gfx942 (MI300, MI325) and gfx950 (MI350, MI355) only",
        f"use {_DEFAULT}",
    )


def _low_latency(c: RoleCase) -> bool:
    return c.role.all2all is All2AllBackend.DEEPEP_LOW_LATENCY and c.moe is not None


def _sizes(c: RoleCase) -> tuple[int, ...]:
    return c.engine.deepep_ll_hidden_sizes or _LL_HIDDEN_SIZES


def _hidden_size(c: RoleCase) -> bool:
    # A size between two compiled ones is rounded up by the engine, so only the largest is a limit.
    return c.moe is not None and c.moe.hidden <= max(_sizes(c))


def _hidden_size_message(c: RoleCase) -> Message:
    hidden = c.moe.hidden if c.moe else 0
    return Message(
        f"deepep_low_latency with hidden size {hidden}",
        f"its kernels are compiled for hidden sizes up to {max(_sizes(c))}",
        "use deepep_high_throughput or " + _DEFAULT,
    )


def _needs_gpu_initiated(c: RoleCase) -> bool:
    return c.role.all2all in _GPU_INITIATED and c.leaves_domain


def _gpu_initiated(c: RoleCase) -> bool:
    return c.pool.fabric.gpu_initiated


def _gpu_initiated_message(c: RoleCase) -> Message:
    return Message(
        f"{c.role.all2all} over {c.group_gpus} GPUs on {c.pool.fabric.name}",
        f"the group leaves its {c.domain_gpus}-GPU scale-up domain, and the kernels need GPU-initiated RDMA "
        "(IBGDA), which this fabric lacks",
        f"use TP x DP of at most {c.domain_gpus}, deepep_high_throughput, or {_DEFAULT}",
    )


def _needs_rdma(c: RoleCase) -> bool:
    return c.role.all2all in _RDMA and c.leaves_domain


def _rdma(c: RoleCase) -> bool:
    return c.pool.fabric.rdma


def _rdma_message(c: RoleCase) -> Message:
    return Message(
        f"{c.role.all2all} over {c.group_gpus} GPUs on {c.pool.fabric.name}",
        f"the group leaves its {c.domain_gpus}-GPU scale-up domain and the fabric has no RDMA",
        f"use TP x DP of at most {c.domain_gpus}, or {_DEFAULT}",
    )


def _deepep_leaves(c: RoleCase) -> bool:
    # the low-latency kernels and v2 are already held back by the rule on GPU-initiated RDMA
    return c.role.all2all is All2AllBackend.DEEPEP_HIGH_THROUGHPUT and c.leaves_domain


def _mellanox(c: RoleCase) -> bool:
    return c.pool.fabric.kind is not FabricKind.EFA


def _mellanox_message(c: RoleCase) -> Message:
    return Message(
        f"{c.role.all2all} over {c.group_gpus} GPUs on {c.pool.fabric.name}",
        f"the group leaves its {c.domain_gpus}-GPU scale-up domain, and DeepEP's transport needs Mellanox NICs "
        "(DeepEP#759)",
        f"use TP x DP of at most {c.domain_gpus}, or {_DEFAULT}",
    )


def _needs_nvlink_domain(c: RoleCase) -> bool:
    return c.role.all2all in FLASHINFER


def _nvlink_domain(c: RoleCase) -> bool:
    if c.leaves_domain or c.pool.gpu.scale_up.kind is not ScaleUpKind.SWITCHED:
        return False
    if c.role.all2all is All2AllBackend.FLASHINFER_NVLINK_TWO_SIDED:
        return c.pool.scale_up_gpus > c.node_gpus
    return True


def _nvlink_domain_message(c: RoleCase) -> Message:
    two_sided = c.role.all2all is All2AllBackend.FLASHINFER_NVLINK_TWO_SIDED
    return Message(
        f"{c.role.all2all} over {c.group_gpus} GPUs of {c.pool.gpu.name}, {c.pool.scale_up_gpus} per domain",
        "its exchange is NVLink stores into peers, so the whole group must share one NVSwitch domain"
        + (" that spans nodes (MNNVL, NVL72 class)" if two_sided else ""),
        f"use TP x DP of at most {c.domain_gpus} on NVSwitch GPUs"
        + (", or flashinfer_nvlink_one_sided in one node" if two_sided else "")
        + f", or {_DEFAULT}",
    )


def _needs_peer_links(c: RoleCase) -> bool:
    return c.role.all2all is All2AllBackend.DEEPEP_HIGH_THROUGHPUT and c.pod_gpus > 1


def _peer_links(c: RoleCase) -> bool:
    return c.pool.gpu.scale_up.kind is not ScaleUpKind.PCIE


def _peer_links_message(c: RoleCase) -> Message:
    return Message(
        f"deepep_high_throughput on {c.pool.gpu.name}, whose GPUs meet over PCIe",
        "the kernels forward through NVLink inside a node",
        f"use {_DEFAULT}",
    )


def _needs_even_experts(c: RoleCase) -> bool:
    return c.role.all2all in _EVEN_EXPERTS and c.exchanges and c.moe is not None and c.role.eplb is None


def _even_experts(c: RoleCase) -> bool:
    return c.moe is not None and c.moe.experts % c.ep == 0


def _even_experts_message(c: RoleCase) -> Message:
    experts = c.moe.experts if c.moe else 0
    return Message(
        f"{experts} experts over EP {c.ep} with {c.role.all2all}",
        f"the backend needs the same number of experts on each rank; {experts} / {c.ep} leaves "
        f"{experts % c.ep}",
        f"use EPLB with {-experts % c.ep} redundant experts, a width that divides {experts}, or {_DEFAULT}",
    )


def _needs_block_hidden(c: RoleCase) -> bool:
    return (
        c.role.all2all is All2AllBackend.FLASHINFER_NVLINK_ONE_SIDED
        and c.facts.expert_format is WeightFormat.FP8_BLOCK
        and c.moe is not None
    )


def _block_hidden(c: RoleCase) -> bool:
    return c.moe is not None and c.moe.hidden % 128 == 0


def _block_hidden_message(c: RoleCase) -> Message:
    return Message(
        f"flashinfer_nvlink_one_sided with hidden size {c.moe.hidden if c.moe else 0} and block fp8",
        "dispatched activations are scaled in groups of 128",
        f"use {_DEFAULT}",
    )


EXCHANGE_RULES: tuple[Rule[RoleCase], ...] = (
    Rule(
        code="all2all.exchange",
        title="A backend needs expert parallel and DP above 1",
        applies=_not_default,
        check=_exchanges,
        message=_exchanges_message,
    ),
    Rule(
        code="all2all.vendor",
        title="DeepEP, NIXL EP and FlashInfer run on NVIDIA",
        applies=_nvidia_backend,
        check=_is_nvidia,
        message=_is_nvidia_message,
    ),
    Rule(
        code="all2all.mori",
        title="MoRI runs on gfx942 and gfx950",
        applies=_mori,
        check=_is_mori_gpu,
        message=_is_mori_gpu_message,
    ),
    Rule(
        code="all2all.hidden",
        title="DeepEP low latency has a largest hidden size",
        applies=_low_latency,
        check=_hidden_size,
        message=_hidden_size_message,
    ),
    Rule(
        code="all2all.ibgda",
        title="GPU-initiated kernels need IBGDA across domains",
        applies=_needs_gpu_initiated,
        check=_gpu_initiated,
        message=_gpu_initiated_message,
    ),
    Rule(
        code="all2all.rdma",
        title="The backend needs RDMA across domains",
        applies=_needs_rdma,
        check=_rdma,
        message=_rdma_message,
    ),
    Rule(
        code="all2all.efa",
        title="DeepEP across nodes needs Mellanox NICs",
        applies=_deepep_leaves,
        check=_mellanox,
        message=_mellanox_message,
    ),
    Rule(
        code="all2all.nvlink",
        title="FlashInfer exchanges inside one NVLink domain",
        applies=_needs_nvlink_domain,
        check=_nvlink_domain,
        message=_nvlink_domain_message,
    ),
    Rule(
        code="all2all.peers",
        title="DeepEP high throughput needs NVLink in a node",
        applies=_needs_peer_links,
        check=_peer_links,
        message=_peer_links_message,
    ),
    Rule(
        code="all2all.experts",
        title="The backend needs equally many experts per rank",
        applies=_needs_even_experts,
        check=_even_experts,
        message=_even_experts_message,
    ),
    Rule(
        code="all2all.block",
        title="FlashInfer one-sided scales in groups of 128",
        applies=_needs_block_hidden,
        check=_block_hidden,
        message=_block_hidden_message,
    ),
)
