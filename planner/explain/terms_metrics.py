"""The metrics dictionary: every reported quantity with unit, denominator and direction."""

from __future__ import annotations

from typing import Final

from planner.domain.problem import PREFILL_HEADROOM
from planner.explain.topic import Area, Better, Term

METRICS: Final = (
    Term(
        name="TTFT",
        aliases=("time to first token", "ttft_ms", "ttft_ms_p50"),
        area=Area.METRICS,
        text=(
            "Time to first token: from the arrival of a request to its first token, queueing and KV transfer included. "
            "Medians unless a percentile is named. Near saturation it is all queue."
        ),
        unit="ms",
        better=Better.LOWER,
        shown=("planner recommend, estimate, simulate", "--ttft-ms", "the axis ttft"),
        see=("TPOT", "E2E latency", "prefill"),
    ),
    Term(
        name="TPOT",
        aliases=("time per output token", "tpot_ms", "tpot_ms_p50"),
        area=Area.METRICS,
        text="Time per output token of one request, its first token left out; then the median over requests.",
        unit="ms",
        better=Better.LOWER,
        formula="(E2E - TTFT) / (output tokens - 1)",
        shown=("planner recommend, estimate, simulate", "--tpot-ms", "the axis tpot"),
        see=("ITL", "tok/s/user", "TTFT"),
    ),
    Term(
        name="ITL",
        aliases=("inter-token latency", "inter token latency"),
        area=Area.METRICS,
        text=(
            "Inter-token latency: the gap between two streamed chunks, pooled over all requests. With speculation a chunk holds "
            "several tokens, so ITL is a multiple of TPOT; the two are never mixed."
        ),
        unit="ms",
        better=Better.LOWER,
        shown=("planner cluster status", "imported measurements"),
        see=("TPOT", "MTP"),
    ),
    Term(
        name="E2E latency",
        aliases=("e2e", "end-to-end latency", "request latency"),
        area=Area.METRICS,
        text="From the arrival of a request to its last token.",
        unit="ms",
        better=Better.LOWER,
        formula="TTFT + TPOT x (output tokens - 1)",
        shown=("planner simulate", "imported measurements"),
        see=("TTFT", "TPOT"),
    ),
    Term(
        name="output tok/s/GPU",
        aliases=("output_tok_s_per_gpu", "tok-s-gpu", "tok/s/gpu", "throughput", "throughput per gpu"),
        area=Area.METRICS,
        text=(
            "Output tokens per second over every GPU that the plan owns, prefill, decode and idle ones together. Sources that "
            "divide by decode GPUs alone are converted when they are imported."
        ),
        unit="tok/s per GPU owned",
        better=Better.HIGHER,
        formula="requests per second x OSL / GPUs owned",
        shown=("planner recommend, estimate, simulate", "the axis tok-s-gpu"),
        see=("tok/s/user", "$/Mtok"),
    ),
    Term(
        name="tok/s/user",
        aliases=("tok-s-user", "interactivity", "tok_s_user"),
        area=Area.METRICS,
        text="Speed at which one user sees tokens appear.",
        unit="tok/s",
        better=Better.HIGHER,
        formula="1000 / TPOT in ms",
        shown=("planner recommend", "the x axis of the frontier"),
        see=("TPOT", "output tok/s/GPU", "frontier"),
    ),
    Term(
        name="$/Mtok",
        aliases=("cost", "usd_per_m_output_tokens", "$ per m output tokens", "price per token"),
        area=Area.METRICS,
        text="Dollars per million output tokens, all owned GPUs paid for all the time.",
        unit="$ per million output tokens",
        better=Better.LOWER,
        formula="$ per GPU-hour x 10^6 / (3600 x output tok/s/GPU)",
        shown=("planner recommend", "--usd-per-gpu-hour", "the axis cost"),
        see=("output tok/s/GPU",),
    ),
    Term(
        name="concurrency",
        aliases=("requests in flight", "conc.", "in flight", "users"),
        area=Area.METRICS,
        text=(
            "Requests in flight in the whole plan: queued, in prefill, in transfer and in decode. At given latencies more of "
            "them means more users served."
        ),
        unit="requests",
        better=Better.HIGHER,
        formula="requests per second x E2E latency (Little's law)",
        shown=("planner recommend (conc.)", "--concurrency", "the axis concurrency"),
        see=("request rate", "closed loop"),
    ),
    Term(
        name="request rate",
        aliases=("qps", "rps", "requests_per_s", "requests per second"),
        area=Area.METRICS,
        text="Requests finished per second by the whole plan; offered ones in an open loop.",
        unit="requests/s",
        better=Better.HIGHER,
        shown=("planner estimate, simulate", "planner size --rate"),
        see=("concurrency", "open loop"),
    ),
    Term(
        name="goodput",
        aliases=("slo attainment", "attainment"),
        area=Area.METRICS,
        text="Requests per second that meet every target; as a share of all requests it is called attainment.",
        unit="requests/s, or a share",
        better=Better.HIGHER,
        shown=("planner simulate",),
        see=("TTFT", "TPOT", "request rate"),
    ),
    Term(
        name="step time",
        aliases=("step_ms", "iteration time"),
        area=Area.METRICS,
        text="Duration of one forward pass of an engine group, as long as that of its slowest rank.",
        unit="ms",
        better=Better.LOWER,
        shown=("planner estimate", "Why of planner recommend", "planner simulate"),
        see=("lockstep", "TPOT"),
    ),
    Term(
        name="straggler share",
        area=Area.METRICS,
        text="Share of step time that ranks spend waiting for the slowest one.",
        unit="% of step time",
        better=Better.LOWER,
        formula="(attention time of the slowest rank - mean over ranks) / step time, summed over steps",
        shown=("planner simulate", "planner compare"),
        see=("lockstep", "router"),
    ),
    Term(
        name="prefill utilisation",
        aliases=("utilisation", "busy"),
        area=Area.METRICS,
        text=(
            f"Share of time that prefill groups are busy. A plan that promises a TTFT keeps it at {PREFILL_HEADROOM:.0%} or "
            "less: beyond, waiting grows several-fold with a capacity that is known to about 15 %."
        ),
        unit="share",
        better=Better.LOWER,
        shown=("planner recommend (headroom)", "planner estimate"),
        see=("TTFT",),
    ),
    Term(
        name="prefix hit rate",
        aliases=("hit rate", "prefix_hit"),
        area=Area.METRICS,
        text="Share of prompt tokens found in the prefix cache. No traffic is not a hit rate of 0 %.",
        unit="share of prompt tokens",
        better=Better.HIGHER,
        shown=("planner simulate", "planner cluster status"),
        see=("prefix cache",),
    ),
    Term(
        name="KV bytes per token",
        aliases=("kv_bytes_per_token", "kv size"),
        area=Area.METRICS,
        text="Bytes of KV cache that one token of context takes, over all layers, unsharded.",
        unit="bytes per token",
        better=Better.LOWER,
        shown=("planner models show MODEL",),
        see=("MLA", "KV tokens per rank"),
    ),
    Term(
        name="KV tokens per rank",
        aliases=("kv tokens", "kv capacity", "kv space"),
        area=Area.METRICS,
        text=(
            "Tokens of context a DP rank can hold: what is left of its GPU memory after weights, activations, buffers and "
            "graphs, over the bytes a token takes on this rank."
        ),
        unit="tokens",
        better=Better.HIGHER,
        formula="(utilisation x HBM - weights - peak - buffers) / (KV bytes per token / DCP)",
        shown=("Why of planner recommend", "planner estimate"),
        see=("wide EP", "DCP", "KV bytes per token"),
    ),
    Term(
        name="hypervolume",
        aliases=("hv",),
        area=Area.METRICS,
        text=(
            "Area under a frontier, measured from a reference point. One number for how good a set of trade-offs is: a point "
            "that nothing dominates makes it larger, a dominated one leaves it as it is."
        ),
        unit="product of the axes' units, or a share of the best possible",
        better=Better.HIGHER,
        shown=("planner search", "planner studies show"),
        see=("frontier", "regret"),
    ),
    Term(
        name="regret",
        area=Area.METRICS,
        text="What a search may still be missing: the share of the analytic front's hypervolume its points do not cover.",
        unit="share of the hypervolume",
        better=Better.LOWER,
        shown=("planner search", "planner studies show"),
        see=("hypervolume",),
    ),
    Term(
        name="interval coverage",
        aliases=("coverage",),
        area=Area.METRICS,
        text="Share of measured values that lie inside the stated interval. For an honest 80 % interval it is near 80 %.",
        unit="%",
        shown=("planner validate", "docs/accuracy.md"),
        see=("interval",),
    ),
)
