"""Terms of search, simulation and certainty, and the words this program uses for its own things."""

from __future__ import annotations

from typing import Final

from planner.domain.problem import PREFILL_HEADROOM
from planner.explain.topic import Area, Term

OURS: Final = (
    Term(
        name="frontier",
        aliases=("pareto frontier", "pareto front", "front", "dominated"),
        area=Area.SEARCH,
        text=(
            "The (plan, load) points that no other point beats on both axes. It is exact for the model: every legal point is "
            "priced. It is not exact for the world; intervals say how far that may be."
        ),
        shown=("planner recommend", "planner tui", "planner why-not"),
        see=("interval", "hypervolume", "tok/s/user", "output tok/s/GPU"),
    ),
    Term(
        name="interval",
        aliases=("80 % interval", "band", "confidence interval", "prediction interval"),
        area=Area.SEARCH,
        text=(
            "The range that holds the measured value in 80 % of cases, from errors on rows whose whole (model, GPU, engine) "
            "group was left out of the fit. Plans whose intervals overlap the winner's are marked = : not distinguishable."
        ),
        shown=("[84-343] in every table", "docs/explanation/uncertainty.md"),
        see=("provenance", "interval coverage", "extrapolation"),
    ),
    Term(
        name="provenance",
        aliases=("calibrated", "operator-table", "operator table", "fitted", "datasheet", "measured"),
        area=Area.SEARCH,
        text=(
            "Where a number comes from, best first: measured, calibrated, simulated, operator-table, fitted, datasheet. A sum is "
            "only as good as its weakest significant term."
        ),
        shown=("weakest source in planner recommend and estimate",),
        see=("interval", "UNCONFIRMED"),
    ),
    Term(
        name="extrapolation",
        aliases=("extrapolates", "interpolates"),
        area=Area.SEARCH,
        text="A load or width outside the data behind a prediction. The dimensions are named and the interval is widened.",
        shown=("planner recommend (extrapolates in …)",),
        see=("interval",),
    ),
    Term(
        name="UNCONFIRMED",
        aliases=("not confirmed", "confirmed: false"),
        area=Area.SEARCH,
        text=(
            "A figure whose source could not be checked. It is never a silent default: it is asked for, or named in the list of "
            "assumptions."
        ),
        shown=("Assumed of planner recommend", "planner profiles show"),
        see=("provenance",),
    ),
    Term(
        name="roofline",
        area=Area.SEARCH,
        text=(
            "A lower bound of kernel time from a datasheet: the larger of operations over peak rate and bytes over bandwidth, here "
            "with efficiencies transferred from GPUs that were measured."
        ),
        see=("provenance",),
    ),
    Term(
        name="conformal interval",
        aliases=("conformal",),
        area=Area.SEARCH,
        text=(
            "An interval whose width is a quantile of errors on data that was left out of the fit. It covers its share without "
            "assuming how errors are distributed, as long as new cases resemble the left-out ones."
        ),
        shown=("planner calibrate", "docs/explanation/uncertainty.md"),
        see=("interval", "interval coverage"),
    ),
    Term(
        name="common random numbers",
        aliases=("crn", "paired comparison"),
        area=Area.SEARCH,
        text="All sides of a comparison get the same arrivals, lengths and draws, so a difference is not the luck of the dice.",
        shown=("planner compare", "planner experiments"),
        see=("replication",),
    ),
    Term(
        name="replication",
        aliases=("replications",),
        area=Area.SEARCH,
        text="A run repeated with another seed; several give an interval of the mean.",
        shown=("--replications",),
        see=("common random numbers",),
    ),
    Term(
        name="legality rule",
        aliases=("rule", "legal", "exclusion"),
        area=Area.SEARCH,
        text=(
            "A constraint of the engine, the exporter or the hardware with a stable code. Candidates = legal ones + those excluded "
            "by a rule; planner explain CODE tells a rule."
        ),
        shown=("planner recommend (Space)", "planner why-not"),
        see=("frontier",),
    ),
    Term(
        name="plan",
        aliases=("deployment plan", "plan notation"),
        area=Area.OURS,
        text=(
            "A decision: roles with groups and widths, backends, limits, the traffic and the load it is for. Written short as "
            "P 1x(tp2,dp8,ep16) D 1x(tp2,dp8,ep16), and saved as YAML or JSON."
        ),
        shown=("planner recommend --save FILE", "planner estimate PLAN", "planner export PLAN"),
        see=("recipe", "evaluation", "recommendation"),
    ),
    Term(
        name="recipe",
        area=Area.OURS,
        text="A named, tested input: model, hardware, traffic and targets, with the plan that is expected of it.",
        shown=("planner recipes list",),
        see=("plan", "recommendation"),
    ),
    Term(
        name="profile",
        area=Area.OURS,
        text=(
            "What a GPU, fabric, node shape, engine or model is; every figure has source, date and method. --profiles DIR lays your "
            "files over ours."
        ),
        shown=("planner profiles list",),
        see=("UNCONFIRMED", "provenance"),
    ),
    Term(
        name="evaluation",
        area=Area.OURS,
        text="The numbers of one plan at one load: rates, latencies, memory, with intervals and provenance.",
        shown=("planner estimate",),
        see=("plan",),
    ),
    Term(
        name="recommendation",
        aliases=("pick",),
        area=Area.OURS,
        text="Frontier, ranked plans, the pick and the reasons for it.",
        shown=("planner recommend",),
        see=("frontier", "plan"),
    ),
    Term(
        name="study",
        aliases=("trial", "trials"),
        area=Area.OURS,
        text="A search over simulations or measurements, kept in the store; each finished run is a trial and survives a crash.",
        shown=("planner search", "planner studies"),
        see=("hypervolume", "campaign"),
    ),
    Term(
        name="campaign",
        area=Area.OURS,
        text="A set of benchmark runs chosen to tell most about the factors that a calibration fits.",
        shown=("planner campaign design",),
        see=("calibration",),
    ),
    Term(
        name="calibration",
        aliases=("calibrate", "calibration factor", "factors"),
        area=Area.OURS,
        text=(
            "Factors on kinds of time, fitted to measurements. The shipped pack holds them per engine, GPU family and format; yours "
            "are fitted by planner calibrate and used when they predict better on rows left out."
        ),
        shown=("planner calibrate", "--calibration, --no-calibration"),
        see=("interval", "provenance", "campaign"),
    ),
    Term(
        name="dialect",
        area=Area.OURS,
        text="One tested set of versions of LWS, InferencePool, router and vLLM; manifests follow one and sets are never mixed.",
        shown=("planner export --dialect",),
        see=("plan",),
    ),
    Term(
        name="headroom",
        area=Area.OURS,
        text=(
            f"Capacity kept free: a plan with a TTFT target keeps its prefill groups at most {PREFILL_HEADROOM:.0%} busy; for a "
            "fleet, the nodes that may fail without breaking a target."
        ),
        shown=("Assumed of planner recommend", "planner size --spare-nodes"),
        see=("prefill utilisation",),
    ),
    Term(
        name="analytic level",
        aliases=("l1", "level 1", "analytic model", "closed form"),
        area=Area.OURS,
        text=(
            "L1: every legal plan at every load, priced in closed form from step tables. It gives means and medians; bursts, tails and "
            "routers are the simulator's subject."
        ),
        shown=("planner recommend, estimate, why-not", "docs/explanation/the-model.md"),
        see=("simulator", "closed loop", "frontier"),
    ),
    Term(
        name="simulator",
        aliases=("l2", "level 2", "simulation", "discrete-event simulation", "des"),
        area=Area.OURS,
        text="L2: one plan under traffic, event by event, over the same step tables: queues, caches, routers, lockstep ranks.",
        shown=("planner simulate, compare, experiments", "docs/simulation.md"),
        see=("analytic level", "lockstep", "router"),
    ),
    Term(
        name="binding",
        aliases=("limited by", "bottleneck"),
        area=Area.OURS,
        text="What keeps a plan from serving more: a target, KV space, a limit on sequences, prefill capacity, or nothing but the load.",
        shown=("Why of planner recommend", "planner estimate"),
        see=("saturation", "SLO"),
    ),
    Term(
        name="median",
        aliases=("p50", "p99", "percentile"),
        area=Area.METRICS,
        text=(
            "Half of the requests are faster. Targets and tables are medians unless a percentile is named; a P99 from fewer than 1,000 "
            "requests is flagged."
        ),
        shown=("planner simulate",),
        see=("TTFT", "TPOT"),
    ),
)
