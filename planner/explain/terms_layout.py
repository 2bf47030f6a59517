"""Terms of how a model is laid out over GPUs."""

from __future__ import annotations

from typing import Final

from planner.explain.topic import Area, Term

LAYOUT: Final = (
    Term(
        name="tensor parallelism",
        aliases=("tp", "tp size"),
        area=Area.LAYOUT,
        text=(
            "Every weight matrix is cut over TP GPUs, which exchange activations twice per layer by all-reduce. It "
            "shortens a step. With multi-head latent attention (MLA) every GPU still holds the whole KV cache, so it "
            "buys no KV space for such models."
        ),
        shown=("tp in plan notation: 1x(tp8,dp1)",),
        see=("data parallelism", "MLA", "DCP"),
    ),
    Term(
        name="data parallelism",
        aliases=("dp", "dp size", "dp attention", "data parallel attention", "dp-attention"),
        area=Area.LAYOUT,
        text=(
            "DP attention: each of DP ranks holds the attention weights and the KV cache of its own requests, while "
            "the experts are spread over all ranks of the group. Requests are not split between ranks, so KV is held once. "
            "The ranks meet in every MoE layer and therefore step together."
        ),
        shown=("dp in plan notation: 1x(tp1,dp16)",),
        see=("DP rank", "lockstep", "expert parallelism", "wide EP"),
    ),
    Term(
        name="DP rank",
        aliases=("rank",),
        area=Area.LAYOUT,
        text=(
            "One scheduler with its own queue and KV pool inside a data parallel group; TP GPUs wide. A rank is what the "
            "router chooses, and what queues unevenly. In the cluster it is one engine label of one endpoint."
        ),
        shown=("planner cluster status -o wide", "the heat map of the terminal app and the console"),
        see=("data parallelism", "hot rank", "engine group"),
    ),
    Term(
        name="expert parallelism",
        aliases=("ep", "ep size", "ep width", "noep"),
        area=Area.LAYOUT,
        text=(
            "The routed experts of an MoE layer are spread over EP ranks; tokens travel to their experts and back "
            "(dispatch and combine). In vLLM EP is not a free width: with expert parallelism on it is TP x DP."
        ),
        formula="EP = TP x DP; experts per rank = (experts + redundant experts) / EP",
        shown=("ep in plan labels: 1x(tp2,dp8,ep16)",),
        see=("wide EP", "all-to-all backend", "EPLB"),
    ),
    Term(
        name="wide EP",
        aliases=("wide-ep", "wideep", "large ep"),
        area=Area.LAYOUT,
        text=(
            "Expert parallelism beyond one node. A wider group holds fewer experts per GPU, which leaves memory for KV "
            "cache and so for a larger batch; the price is exchange over the network and more ranks in lockstep."
        ),
        shown=("planner recommend", "planner experiments run --all (the width laws)"),
        see=("expert parallelism", "KV tokens per rank", "lockstep"),
    ),
    Term(
        name="DCP",
        aliases=("decode context parallel", "decode context parallelism", "dcp size", "context parallelism"),
        area=Area.LAYOUT,
        text=(
            "Decode context parallelism: the GPUs of a TP group, which would hold copies of the same KV cache, each hold "
            "1/DCP of the tokens instead. It multiplies KV space for MLA models under TP and costs an exchange of partial "
            "attention results."
        ),
        shown=("dcp in plan notation: 4x(tp8,dp1,dcp4)", "rules dcp.*"),
        see=("tensor parallelism", "KV tokens per rank"),
    ),
    Term(
        name="DBO",
        aliases=("dual batch overlap", "dual-batch overlap", "two batch overlap", "tbo"),
        area=Area.LAYOUT,
        text=(
            "Dual-batch overlap: a step is cut into two micro-batches, one computes while the other exchanges tokens. It "
            "pays when exchange is long beside compute, and loses at small batches, where two halves read the expert "
            "weights twice. All ranks must agree in every step."
        ),
        formula="max(A,D) + max(M,D) + max(S+M,C) + max(S+A,C) + 0.35 x the shorter sides (planner/perf/compose.py)",
        shown=("dbo in plan notation", "rules dbo.*", "lint rules L12, L13"),
        see=("all-to-all backend", "lockstep"),
    ),
    Term(
        name="EPLB",
        aliases=(
            "expert parallel load balancing",
            "async eplb",
            "asynchronous eplb",
            "rebalancing",
            "expert load balancing",
            "redundant experts",
        ),
        area=Area.LAYOUT,
        text=(
            "Expert parallel load balancing: popular experts get copies (redundant experts) and are placed so that ranks "
            "carry equal work; the placement is renewed every some thousand steps. Copies take memory from the KV cache. Synchronous "
            "rebalancing stalls the group; asynchronous does not."
        ),
        shown=("eplb+32 in plan notation (32 redundant experts)", "rules eplb.*", "lint rule L14"),
        see=("expert parallelism", "lockstep"),
    ),
    Term(
        name="all-to-all backend",
        aliases=(
            "all2all",
            "a2a",
            "deepep",
            "deepep-ll",
            "deepep-ht",
            "nixl-ep",
            "mori",
            "ag-rs",
            "dispatch",
            "combine",
        ),
        area=Area.LAYOUT,
        text=(
            "The kernels that carry tokens to their experts (dispatch) and back (combine). deepep-ll has low latency and a "
            "small step, for decode; deepep-ht has high throughput, for prefill; ag-rs (allgather and reduce-scatter) is "
            "the engine's default; mori is AMD's; nvl-1s and nvl-2s stay inside an NVLink domain."
        ),
        shown=("plan notation: deepep-ll, deepep-ht, ag-rs, …", "rules all2all.*"),
        see=("expert parallelism", "DBO"),
    ),
    Term(
        name="MTP",
        aliases=("multi-token prediction", "speculative decoding", "speculation", "draft tokens"),
        area=Area.LAYOUT,
        text=(
            "Multi-token prediction: draft layers of the checkpoint propose tokens that the next step verifies. TPOT falls "
            "by the accepted tokens per step; every step carries the drafts as extra tokens. Acceptance is a property of "
            "your traffic, so it is off unless you give it."
        ),
        formula="tokens per step = 1 + p + p^2 + … for drafts accepted with probability p each",
        shown=("--mtp", "rules mtp.*"),
        see=("TPOT", "ITL"),
    ),
    Term(
        name="MLA",
        aliases=("multi-head latent attention", "latent attention"),
        area=Area.LAYOUT,
        text=(
            "Multi-head latent attention (DeepSeek, Kimi): the KV cache holds one compressed vector per token for all heads. "
            "It is small, but it cannot be cut over TP: every TP GPU holds a copy unless DCP divides the tokens."
        ),
        shown=("planner models show MODEL",),
        see=("DCP", "KV bytes per token", "tensor parallelism"),
    ),
    Term(
        name="engine group",
        aliases=("group", "dp group", "engine"),
        area=Area.LAYOUT,
        text=(
            "The GPUs that serve one copy of the model together: TP x DP GPUs, all DP ranks of one vLLM deployment. A role is "
            "some number of groups. One lost node takes its whole group down."
        ),
        shown=("the number before x in plan notation: 2x(tp1,dp8)",),
        see=("role", "LeaderWorkerSet", "DP rank"),
    ),
    Term(
        name="chunked prefill",
        aliases=("max_num_batched_tokens", "prefill chunk", "batched tokens"),
        area=Area.LAYOUT,
        text=(
            "A prompt longer than the token budget of a step (max_num_batched_tokens) is processed in chunks. In aggregated "
            "serving chunks share steps with decodes, which is what makes them wait."
        ),
        shown=("tokens=16384 in plan notation",),
        see=("interference", "prefill", "TTFT"),
    ),
)
