"""Terms of serving, and of llm-d and Kubernetes."""

from __future__ import annotations

from typing import Final

from planner.explain.topic import Area, Term

SERVING: Final = (
    Term(
        name="SLO",
        aliases=("slos", "sla", "service level", "target", "targets", "service level objective"),
        area=Area.SERVING,
        text=(
            "The latencies a deployment must keep. Here they are medians of TTFT and TPOT: among the plans that meet them, the "
            "one with the most output per GPU is picked."
        ),
        shown=("--ttft-ms, --tpot-ms", "meet the targets in planner recommend"),
        see=("TTFT", "TPOT", "goodput"),
    ),
    Term(
        name="MoE",
        aliases=("mixture of experts", "experts", "routed experts"),
        area=Area.LAYOUT,
        text=(
            "Mixture of experts: each token uses a few of many expert MLPs. Most weights are experts, and a step reads all those "
            "that any of its tokens needs."
        ),
        shown=("planner models show MODEL",),
        see=("expert parallelism", "EPLB", "decode"),
    ),
    Term(
        name="prefill",
        area=Area.SERVING,
        text=(
            "Processing of the prompt: all its tokens at once, bound by compute. It ends with the first token. In a "
            "disaggregated plan prefill has GPUs of its own."
        ),
        see=("decode", "TTFT", "disaggregation"),
    ),
    Term(
        name="decode",
        area=Area.SERVING,
        text=(
            "Generation, one token per request and step. A step reads all weights and the KV cache of its requests, so it is "
            "bound by memory bandwidth, and a larger batch is nearly free until the KV cache is full."
        ),
        see=("prefill", "TPOT", "KV tokens per rank"),
    ),
    Term(
        name="role",
        area=Area.SERVING,
        text="What a group of GPUs does: prefill, decode, or both (aggregated).",
        see=("disaggregation", "engine group"),
    ),
    Term(
        name="disaggregation",
        aliases=("p/d", "pd", "p/d disaggregation", "disaggregated", "disagg", "aggregated", "agg"),
        area=Area.SERVING,
        text=(
            "Prefill and decode run on separate groups, and the KV cache travels between them. Decode steps are never "
            "interrupted by prompts and each side gets its own width; the price is two copies of the weights, KV transfer, "
            "and GPUs that cannot help the other side. The opposite is aggregated serving."
        ),
        shown=("planner recommend lists both strategies", "docs/explanation/when-disaggregation-loses.md"),
        see=("KV transfer", "interference", "prefill", "decode"),
    ),
    Term(
        name="KV transfer",
        aliases=("nixl", "kv connector", "kv cache transfer"),
        area=Area.SERVING,
        text=(
            "The KV cache of a prompt moves from the prefill rank to the decode rank, over NVLink or RDMA, by a connector such "
            "as NIXL. The request waits for it before its second token."
        ),
        formula="time = KV bytes of the prompt / bandwidth of the NICs the pair shares + setup",
        shown=("rules pair.*", "lint rule L19"),
        see=("disaggregation", "KV bytes per token"),
    ),
    Term(
        name="lockstep",
        aliases=("lock step", "straggler", "stragglers", "dummy batch"),
        area=Area.SERVING,
        text=(
            "The DP ranks of a group meet in every MoE layer, so they step together: the slowest rank sets the time of the "
            "step for all, and a rank without work runs a dummy token. One rank with more context than its peers bills "
            "them all."
        ),
        formula="step = max over ranks of attention + the shared expert part",
        shown=("planner simulate (straggler share)", "docs/explanation/lockstep-and-routing.md"),
        see=("DP rank", "straggler share", "router", "hot rank"),
    ),
    Term(
        name="interference",
        aliases=("prefill interference", "mixed step"),
        area=Area.SERVING,
        text=(
            "In aggregated serving a prompt chunk on one rank lengthens the step of every rank of the group. With R ranks the "
            "chance that a step carries a prompt somewhere is 1 - exp(-R x chunks started per step and rank)."
        ),
        see=("lockstep", "disaggregation", "chunked prefill"),
    ),
    Term(
        name="prefix cache",
        aliases=("prefix caching", "prefix hit", "cache hit"),
        area=Area.SERVING,
        text=(
            "KV blocks of earlier prompts are kept until their space is needed; a prompt that begins alike skips them. Caches "
            "belong to a rank, so the router decides whether they are hit."
        ),
        shown=("--prefix-hit", "planner simulate --workload seed-talk"),
        see=("router", "prefix hit rate"),
    ),
    Term(
        name="closed loop",
        area=Area.SERVING,
        text=(
            "A load with a fixed number of requests in flight: a new request enters when one ends. It cannot overload the "
            "system; it finds the rate that the system gives at that concurrency."
        ),
        shown=("planner recommend, planner estimate --concurrency", "planner simulate --arrival closed"),
        see=("open loop", "concurrency"),
    ),
    Term(
        name="open loop",
        aliases=("request rate load", "poisson arrivals"),
        area=Area.SERVING,
        text=(
            "Requests arrive at a given rate, whether or not earlier ones have ended. Beyond capacity the queue grows without "
            "bound, so a measured TTFT means little there."
        ),
        shown=("planner simulate --arrival poisson --rate", "planner size --rate"),
        see=("closed loop", "request rate"),
    ),
    Term(
        name="ISL",
        aliases=("input sequence length", "prompt length"),
        area=Area.SERVING,
        text="Input sequence length: tokens of a prompt.",
        unit="tokens",
        shown=("--isl",),
        see=("OSL",),
    ),
    Term(
        name="OSL",
        aliases=("output sequence length", "answer length"),
        area=Area.SERVING,
        text="Output sequence length: tokens of an answer.",
        unit="tokens",
        shown=("--osl",),
        see=("ISL",),
    ),
    Term(
        name="router",
        aliases=("scheduler", "scorer", "active-request-scorer", "endpoint picker", "epp"),
        area=Area.KUBERNETES,
        text=(
            "llm-d's endpoint picker (EPP): scores the endpoints of a pool for every request and picks one. Scorers judge queue, "
            "KV usage, prefix or requests in flight; each has a weight in a scheduling profile, one per role."
        ),
        shown=("--router", "planner compare --router A --router B", "EndpointPickerConfig in exports"),
        see=("InferencePool", "lockstep", "prefix cache"),
    ),
    Term(
        name="InferencePool",
        area=Area.KUBERNETES,
        text=(
            "The Gateway API object that names a set of pods and up to eight target ports as endpoints of one model. Ranks "
            "whose port is missing get no traffic."
        ),
        shown=("planner export", "lint rules L02, L03, L27"),
        see=("router", "DP rank"),
    ),
    Term(
        name="LeaderWorkerSet",
        aliases=("lws",),
        area=Area.KUBERNETES,
        text=(
            "Kubernetes objects that run groups of pods as one unit: size is pods per group, replicas is the number of groups. "
            "A group spans the nodes of one engine group and is restarted as a whole."
        ),
        shown=("planner export", "planner cluster status"),
        see=("DisaggregatedSet", "engine group"),
    ),
    Term(
        name="DisaggregatedSet",
        aliases=("disaggregated set", "ds"),
        area=Area.KUBERNETES,
        text=(
            "An LWS object that holds one LeaderWorkerSet template per role and rolls prefill and decode out together, so "
            "that only matching revisions exchange KV cache."
        ),
        shown=("planner export (default for P/D)", "lint rule L28"),
        see=("LeaderWorkerSet", "disaggregation"),
    ),
    Term(
        name="hot rank",
        area=Area.KUBERNETES,
        text="A rank that queues at least 3 requests and more than twice the mean of the other ranks of its role.",
        shown=("planner cluster status", "! in the heat map"),
        see=("DP rank", "lockstep", "router"),
    ),
    Term(
        name="drift",
        area=Area.KUBERNETES,
        text=(
            "Differences between a plan and what runs, found by sending the plan's manifests as a server-side apply in "
            "dry-run. Fields that the plan does not set cannot differ."
        ),
        shown=("planner diff PLAN", "D in the terminal app"),
        see=("plan",),
    ),
    Term(
        name="scale-up domain",
        aliases=("nvlink domain", "nvl72", "scale-up"),
        area=Area.KUBERNETES,
        text=(
            "The GPUs that reach each other over NVLink or xGMI: a node of 8, or a rack of 72. Exchange inside is several "
            "times faster than over the network (scale-out)."
        ),
        shown=("planner profiles show CLUSTER",),
        see=("all-to-all backend", "wide EP"),
    ),
    Term(
        name="fabric",
        aliases=("rdma", "roce", "infiniband", "efa", "scale-out"),
        area=Area.KUBERNETES,
        text="The network between scale-up domains: InfiniBand, RoCE, EFA or plain Ethernet, with its bandwidth per GPU.",
        shown=("--fabric", "planner profiles list"),
        see=("scale-up domain", "KV transfer"),
    ),
    Term(
        name="autoscaling",
        aliases=("autoscale", "autoscaler", "hpa", "keda", "rolescaler"),
        area=Area.KUBERNETES,
        text=(
            "Groups that start and go with the load. A DisaggregatedSetRoleScaler scales prefill and decode on their own; the "
            "arithmetic is the HorizontalPodAutoscaler's. It follows late, by the cold start of a group."
        ),
        shown=("planner simulate --autoscale", "docs/explanation/whats-next.md"),
        see=("cold start", "DisaggregatedSet"),
    ),
    Term(
        name="cold start",
        aliases=("startup time",),
        area=Area.KUBERNETES,
        text=(
            "From asking for a group to its first request: pod, image, weights, compilation, graph capture. It depends on your "
            "storage, so it is asked for and never assumed."
        ),
        unit="s",
        shown=("--cold-start-s", "docs/explanation/whats-next.md"),
        see=("autoscaling",),
    ),
    Term(
        name="elastic EP",
        aliases=("elastic expert parallelism", "elastic-ep"),
        area=Area.KUBERNETES,
        text=(
            "A decode group that changes its number of DP ranks while it serves. It spares a cold start, pauses the group, and adds "
            "no KV space per rank, since experts per rank stay what they were at launch."
        ),
        shown=("planner simulate --scenario elastic-ep", "docs/explanation/whats-next.md"),
        see=("wide EP", "autoscaling", "EPLB"),
    ),
    Term(
        name="encoder disaggregation",
        aliases=("encoder", "vision encoder", "epd"),
        area=Area.SERVING,
        text="GPUs of their own for the vision encoder, as a third role, so that images do not stall prefill groups in lockstep.",
        shown=("planner encoder", "docs/explanation/whats-next.md"),
        see=("role", "lockstep"),
    ),
    Term(
        name="KV cache",
        aliases=("kv", "key-value cache"),
        area=Area.SERVING,
        text=(
            "Keys and values of all tokens of a request, kept so that a step computes the new token only. It lives in what the "
            "weights leave free, and bounds how many requests run at once."
        ),
        see=("KV tokens per rank", "KV bytes per token", "prefix cache", "decode"),
    ),
    Term(
        name="batch",
        aliases=("decode batch", "batch size", "requests per rank"),
        area=Area.SERVING,
        text=(
            "Requests that one step of a rank carries. Decode steps grow little with it until attention or experts do, so more batch "
            "is more throughput at a slower speed per user."
        ),
        unit="requests per rank",
        shown=("planner estimate", "seqs=64 in plan notation (its limit)"),
        see=("decode", "KV tokens per rank", "step time"),
    ),
    Term(
        name="saturation",
        aliases=("saturated", "past saturation", "knee"),
        area=Area.SERVING,
        text=(
            "The load beyond which throughput no longer grows and TTFT is all queue. It comes from a full KV cache, a limit on "
            "sequences, or prefill that cannot keep up."
        ),
        shown=("limited by in planner estimate", "binding in planner recommend"),
        see=("TTFT", "headroom", "prefill utilisation"),
    ),
)
