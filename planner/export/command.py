"""The vLLM command of a role: every flag follows from the plan, the layout or the dialect."""

from __future__ import annotations

from planner.domain.deployment import All2AllBackend, Role, RolePlan
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.errors import InputError, Issue
from planner.domain.hardware import Vendor
from planner.domain.model import CompressedAttention, MlaAttention, ModelSpec
from planner.export.engine_args import ArgValue, EngineCommand, ShellExpression
from planner.export.environment import nvlink_multinode
from planner.export.layout import MASTER_PORT, RPC_PORT, Balancing, RoleLayout
from planner.export.options import RoleHardware

DBO_BACKENDS = (
    All2AllBackend.DEEPEP_LOW_LATENCY,
    All2AllBackend.DEEPEP_HIGH_THROUGHPUT,
    All2AllBackend.NIXL_EP,
)
DBO_DECODE_THRESHOLD = 32
DBO_PREFILL_THRESHOLD = 512
# Repositories whose model code is not in transformers; the vLLM recipes of these models pass --trust-remote-code.
# Families that bring their own tokenizer handling (llm-d wide-ep guide for DeepSeek-V4).
_TOKENIZER_MODES = (("DeepSeek-V4", "deepseek_v4"),)
_REMOTE_CODE = ("moonshotai/", "MiniMaxAI/", "XiaomiMiMo/")


def engine_command(
    role: RolePlan,
    layout: RoleLayout,
    *,
    model: ModelSpec,
    model_argument: str,
    served_name: str,
    max_model_len: int,
    hardware: RoleHardware,
    disaggregated: bool,
    in_lws: bool,
    follower: bool = False,
) -> EngineCommand:
    """The command of one pod of `role`.

    `in_lws` says whether LeaderWorkerSet sets LWS_* in the pod; otherwise ranks are literals. `follower` is a pod of a
    rank that spans pods and serves nothing itself. Raises InputError ``export.dbo_illegal``, ``export.eplb_illegal``.
    """
    check_legal(role, model=model, vendor=hardware.gpu.vendor)
    p = role.parallelism
    args: dict[str, ArgValue] = {"served-model-name": served_name}
    if model.id.startswith(_REMOTE_CODE):
        args["trust-remote-code"] = None
    for part, mode in _TOKENIZER_MODES:
        if part.lower() in model.id.lower():
            args["tokenizer-mode"] = mode
    if not follower:
        args["port"] = layout.engine_port
        args["disable-access-log-for-endpoints"] = "/health,/readyz,/metrics"
    args["tensor-parallel-size"] = p.tp
    if p.dcp > 1:
        args["decode-context-parallel-size"] = p.dcp
    args |= _data_parallel(layout, in_lws=in_lws, follower=follower)
    if p.expert_parallel:
        args["enable-expert-parallel"] = None
    if p.dp > 1 or role.all2all is not All2AllBackend.ALLGATHER_REDUCESCATTER:
        args["all2all-backend"] = role.all2all.value
    if p.dp > 1 and _deep_gemm(role, model=model, hardware=hardware):
        args["moe-backend"] = "deep_gemm"
    args |= _overlap_and_balance(role, layout)
    args["max-model-len"] = max_model_len
    args["max-num-seqs"] = role.max_num_seqs
    args["max-num-batched-tokens"] = role.max_num_batched_tokens
    args["gpu-memory-utilization"] = repr(role.gpu_memory_utilization)
    args["kv-cache-dtype"] = kv_argument(role.kv_dtype, model)
    args["block-size"] = role.block_size
    if role.speculation is not None:
        args["speculative-config"] = {
            "method": "mtp",
            "num_speculative_tokens": role.speculation.draft_tokens,
        }
    if disaggregated:
        args["kv-transfer-config"] = kv_transfer(role.role, hardware)
        if keeps_several_caches(model):
            # Both roles must agree; a KV connector would otherwise switch the hybrid manager off.
            args["no-disable-hybrid-kv-cache-manager"] = None
        if role.role is Role.DECODE and role.speculation is None:
            args["compilation-config"] = {"cudagraph_mode": "FULL_DECODE_ONLY"}
    if hardware.gpu.vendor is Vendor.NVIDIA and (
        nvlink_multinode(layout, hardware)
        or (disaggregated and hardware.gpu.scale_up.domain_gpus > hardware.node.gpus_per_node)
    ):
        args["enable-cumem-allocator"] = None
    return EngineCommand(model=model_argument, args=args)


def _data_parallel(layout: RoleLayout, *, in_lws: bool, follower: bool) -> dict[str, ArgValue]:
    p = layout.parallelism
    leader = ShellExpression('"$LWS_LEADER_ADDRESS"') if in_lws else "127.0.0.1"
    if layout.balancing is Balancing.SINGLE:
        return {}
    if layout.balancing is Balancing.SPANNING:
        args: dict[str, ArgValue] = {
            "nnodes": layout.pods_per_group,
            "node-rank": ShellExpression('"$LWS_WORKER_INDEX"'),
            "master-addr": leader,
            "master-port": MASTER_PORT,
        }
        return {**args, "headless": None} if follower else args
    rank = ShellExpression('"$START_RANK"') if in_lws else 0
    if layout.balancing is Balancing.EXTERNAL:
        return {
            "data-parallel-external-lb": None,
            "data-parallel-size": p.dp,
            "data-parallel-size-local": 1,
            "data-parallel-rank": rank,
            "data-parallel-address": leader,
            "data-parallel-rpc-port": RPC_PORT,
        }
    return {
        "data-parallel-multi-port-external-lb": None,
        "data-parallel-supervisor-port": layout.supervisor_port,
        "data-parallel-size": p.dp,
        "data-parallel-size-local": layout.ranks_per_pod,
        "data-parallel-start-rank": rank,
        "data-parallel-address": leader,
        "data-parallel-rpc-port": RPC_PORT,
    }


def _overlap_and_balance(role: RolePlan, layout: RoleLayout) -> dict[str, ArgValue]:
    args: dict[str, ArgValue] = {}
    if role.dbo:
        args["enable-dbo"] = None
        args["dbo-decode-token-threshold"] = DBO_DECODE_THRESHOLD
        if role.role is not Role.DECODE:
            args["dbo-prefill-token-threshold"] = DBO_PREFILL_THRESHOLD
    if role.eplb is not None:
        args["enable-eplb"] = None
        config: dict[str, object] = {
            "window_size": role.eplb.window_size,
            "step_interval": role.eplb.step_interval,
            "num_redundant_experts": role.eplb.redundant_experts,
            "use_async": role.eplb.use_async,
        }
        if role.eplb.use_async and layout.pods_per_group > 1:
            config["communicator"] = "torch_gloo"  # NIXL's stalls silently across nodes (vllm#57883)
        args["eplb-config"] = config
    return args


def _deep_gemm(role: RolePlan, *, model: ModelSpec, hardware: RoleHardware) -> bool:
    """DeepGEMM is the expert kernel of the guides for block-fp8 experts behind DeepEP on Hopper."""
    return (
        model.quantization.experts is WeightFormat.FP8_BLOCK
        and role.parallelism.expert_parallel
        and hardware.gpu.compute_capability == "9.0"
        and role.all2all.value.startswith("deepep_")
    )


def keeps_several_caches(model: ModelSpec) -> bool:
    """Whether layers keep caches of different kinds: recurrent, windowed or compressed beside full attention."""
    compressed = any(isinstance(g.attention, CompressedAttention) for g in model.layers)
    return model.is_hybrid or model.has_sliding or compressed


def kv_argument(kv: KvDtype, model: ModelSpec) -> str:
    """``--kv-cache-dtype``: ``bfloat16`` only where the model would otherwise default to fp8."""
    if kv is KvDtype.FP8:
        return "fp8"
    sparse = any(isinstance(g.attention, MlaAttention) and g.attention.sparse for g in model.layers)
    return "bfloat16" if sparse or model.quantization.kv_cache is KvDtype.FP8 else "auto"


def kv_transfer(role: Role, hardware: RoleHardware) -> dict[str, object]:
    """``--kv-transfer-config`` of a P/D role over NIXL."""
    backend = "LIBFABRIC" if hardware.fabric.kind.value == "efa" else "UCX"
    return {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_producer" if role is Role.PREFILL else "kv_consumer",
        "kv_buffer_device": "cuda",
        "kv_load_failure_policy": "fail",
        "kv_connector_extra_config": {"backends": [backend]},
    }


def check_legal(role: RolePlan, *, model: ModelSpec, vendor: Vendor) -> None:
    """Refuse combinations the engine asserts on at start, with the rule."""
    p = role.parallelism
    issues: list[Issue] = []
    if role.dbo:
        allowed = (
            DBO_BACKENDS
            if vendor is not Vendor.AMD
            else (*DBO_BACKENDS, All2AllBackend.ALLGATHER_REDUCESCATTER)
        )
        if p.dp == 1 or not p.expert_parallel or role.all2all not in allowed:
            issues.append(
                Issue(
                    code="export.dbo_illegal",
                    what=f"{role.role.value}: DBO with {p.label()} and {role.all2all.value}",
                    why="dual batch overlap needs dp > 1, expert parallel and one of "
                    + ", ".join(b.value for b in allowed),
                    fix="switch DBO off for this role or choose another all2all backend",
                )
            )
    moe = model.moe
    if role.eplb is not None:
        experts = moe.experts if moe is not None else 0
        if not p.expert_parallel or p.ep == 1 or (experts + role.eplb.redundant_experts) % p.ep:
            issues.append(
                Issue(
                    code="export.eplb_illegal",
                    what=f"{role.role.value}: {experts} experts + {role.eplb.redundant_experts} redundant over EP {p.ep}",
                    why="EPLB needs expert parallel over more than one GPU and (experts + redundant) % EP == 0",
                    fix="use a redundant count that makes the sum a multiple of the EP width",
                )
            )
    if role.max_num_seqs < 1 or role.max_num_batched_tokens < 1:
        issues.append(
            Issue(
                code="export.limits_missing",
                what=f"{role.role.value}: max_num_seqs={role.max_num_seqs}, max_num_batched_tokens={role.max_num_batched_tokens}",
                why="both limits are always written, because the engine's defaults change with device and backend",
                fix="set both to at least 1 in the plan",
            )
        )
    if issues:
        raise InputError(*issues)
