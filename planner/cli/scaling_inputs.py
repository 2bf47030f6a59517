"""From the flags of a load over time to checked values; all that is wrong is said at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.cli.scaling_options import ScalingFlags
from planner.domain.errors import InputError, Issue, did_you_mean

if TYPE_CHECKING:
    from planner.domain.deployment import DeploymentPlan
    from planner.domain.workload import SloTargets
    from planner.simulation.cluster import Cluster
    from planner.simulation.scaling.compare import RoleAsked
    from planner.simulation.scaling.elastic import Reconfiguration
    from planner.simulation.scaling.load import LoadCurve
    from planner.simulation.scaling.policy import Behaviour
    from planner.simulation.traffic import Shape

COLD_START_KNOWN = (
    "llm-d's wide-EP guides allow 45 min for DeepSeek-R1 before they give a pod up; published starts of single nodes "
    "are 5 to 8 min (vllm issues 43189 and 44881, 2026)"
)
RECONFIGURATION_KNOWN = (
    "published: 55 s up and 40 s down with all traffic stopped (vllm PR 20775, 2025-07), about 31 s up and 7 s down for "
    "DeepSeek-V2-Lite (PR 43788, 2026-05); since PR 47288 new ranks are prepared in the background and only the switch "
    "stops the group, shortest with NIXL EP (PR 54985, 2026-09)"
)
SCENARIOS = ("elastic-ep", "async-eplb")


def require_no_scaling(flags: ScalingFlags) -> None:
    """Raise `InputError` when flags of a load curve come without a mode that has one."""
    if flags.said():
        raise InputError(
            Issue(
                code="scaling.flag",
                what=f"{', '.join(flags.said())} without --autoscale or --scenario",
                why="a plain simulation has a fixed fleet and one rate",
                fix="add --autoscale",
            )
        )


def require_known_mode(*, autoscale: bool, scenario: str | None, conflicting: Sequence[str]) -> None:
    """Raise `InputError` for unknown scenarios, two modes at once, and flags of the plain simulation."""
    issues = []
    if scenario is not None and scenario not in SCENARIOS:
        issues.append(
            Issue(
                code="scaling.scenario",
                what=f"'{scenario}' is not a scenario",
                why=f"there are {' and '.join(SCENARIOS)}",
                fix=did_you_mean(scenario, SCENARIOS),
                where="--scenario",
            )
        )
    if autoscale and scenario is not None:
        issues.append(
            Issue(
                code="scaling.conflict",
                what="--autoscale and --scenario together",
                why="each is a comparison of its own",
                fix="run them one after the other",
            )
        )
    if conflicting:
        mode = "--autoscale" if autoscale else f"--scenario {scenario}"
        issues.append(
            Issue(
                code="scaling.conflict",
                what=f"{', '.join(conflicting)} with {mode}",
                why="there the load comes from a curve, or from the plan",
                fix=f"leave {'it' if len(conflicting) == 1 else 'them'} out",
            )
        )
    if issues:
        raise InputError(*issues)


def seconds(text: str, *, where: str) -> float:
    """Seconds of texts such as ``24h``, ``90m``, ``3600s`` or ``3600``. Raises `InputError`."""
    factor = {"h": 3600.0, "m": 60.0, "s": 1.0}.get(text[-1:])
    try:
        value = float(text[:-1] if factor else text) * (factor or 1.0)
    except ValueError:
        raise InputError(
            Issue(
                code="scaling.period",
                what=f"'{text}' is not a length of time",
                why="expected a number and h, m or s",
                fix="24h",
                where=where,
            )
        ) from None
    return value


def curve_of(flags: ScalingFlags) -> LoadCurve:
    """The load curve asked for. Raises `InputError` when none or two are."""
    from planner.simulation.scaling.load import diurnal, read_load

    if flags.load_curve is not None:
        if flags.peak_rps is not None or flags.trough_rps is not None or flags.period is not None:
            raise InputError(
                Issue(
                    code="scaling.conflict",
                    what="--load-curve together with --peak-rps, --trough-rps or --period",
                    why="the file says when which rate comes",
                    fix="give one of them",
                )
            )
        return read_load(flags.load_curve)
    if flags.peak_rps is None or flags.trough_rps is None:
        raise InputError(
            Issue(
                code="scaling.load",
                what="no load curve",
                why="how much scaling saves depends on how far the load falls",
                fix="--peak-rps 8 --trough-rps 2, or --load-curve FILE.csv (time_s,rps)",
            )
        )
    period = 86_400.0 if flags.period is None else seconds(flags.period, where="--period")
    return diurnal(peak_rps=flags.peak_rps, trough_rps=flags.trough_rps, period_s=period)


def required_seconds(value: float | None, *, flag: str, what: str, known: str) -> float:
    """A duration that only the user can know. Raises `InputError` with what is published when it is missing."""
    if value is None:
        raise InputError(
            Issue(
                code="scaling.assumption",
                what=f"{what} is not stated",
                why=f"it depends on your storage, image and model; {known}",
                fix=f"{flag} with what you measured, or a value you want to plan for",
                where=flag,
            )
        )
    if not 0.0 <= value <= 86_400.0:
        raise InputError(
            Issue(
                code="scaling.assumption",
                what=f"{what} of {value:g} s",
                why="it must be between 0 and a day",
                fix=f"{flag} 600",
                where=flag,
            )
        )
    return value


def behaviour_of(flags: ScalingFlags) -> Behaviour:
    """Timing of the autoscaler. Raises `InputError` for values out of range."""
    from planner.simulation.scaling.policy import Behaviour

    usual = Behaviour()
    sync = usual.sync_s if flags.sync_s is None else flags.sync_s
    window = usual.down_window_s if flags.stabilisation_s is None else flags.stabilisation_s
    step = usual.step if flags.scale_step is None else flags.scale_step
    issues = [
        Issue(
            code="scaling.behaviour",
            what=f"{name} of {value:g}",
            why=f"it must be between {low:g} and {high:g}",
            fix=f"{name} {normal:g}",
        )
        for name, value, low, high, normal in (
            ("--sync-s", sync, 1.0, 3600.0, usual.sync_s),
            ("--stabilisation-s", window, 0.0, 3600.0, usual.down_window_s),
            ("--scale-step", step, 1, 1000, usual.step),
        )
        if not low <= value <= high
    ]
    if issues:
        raise InputError(*issues)
    return Behaviour(sync_s=sync, down_window_s=window, step=step, average_s=max(usual.average_s, sync))


@dataclass(frozen=True, slots=True, kw_only=True)
class Basics:
    """What is asked without knowing the plan."""

    curve: LoadCurve
    cold_start_s: float
    behaviour: Behaviour


def basics_of(flags: ScalingFlags) -> Basics:
    """Load curve, cold start and timing. Raises `InputError` with all that is wrong, before any work is done."""
    issues: list[Issue] = []
    curve = behaviour = None
    cold_s = 0.0
    try:
        curve = curve_of(flags)
    except InputError as error:
        issues += error.issues
    try:
        cold_s = required_seconds(
            flags.cold_start_s,
            flag="--cold-start-s",
            what="the cold start of a group",
            known=COLD_START_KNOWN,
        )
    except InputError as error:
        issues += error.issues
    try:
        behaviour = behaviour_of(flags)
    except InputError as error:
        issues += error.issues
    if issues or curve is None or behaviour is None:
        raise InputError(*issues)
    return Basics(curve=curve, cold_start_s=cold_s, behaviour=behaviour)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticAsked:
    """What is asked of elastic EP. `widths` None: the plan's and twice that."""

    basics: Basics
    how: Reconfiguration
    widths: tuple[int, ...] | None


def elastic_of(flags: ScalingFlags) -> ElasticAsked:
    """Curve, cold start, reconfiguration and widths. Raises `InputError` with all that is wrong."""
    from planner.simulation.scaling.elastic import DRAIN_TIMEOUT_S, Reconfiguration

    issues: list[Issue] = []
    basics = None
    try:
        basics = basics_of(flags)
    except InputError as error:
        issues += error.issues
    times = {}
    for flag, value, what in (
        ("--prepare-s", flags.prepare_s, "the preparation of new ranks"),
        ("--pause-s", flags.pause_s, "the pause of a change of width"),
        (
            "--drain-timeout-s",
            DRAIN_TIMEOUT_S if flags.drain_timeout_s is None else flags.drain_timeout_s,
            "the drain timeout",
        ),
    ):
        try:
            times[flag] = required_seconds(value, flag=flag, what=what, known=RECONFIGURATION_KNOWN)
        except InputError as error:
            issues += error.issues
    bounds = [f for f in flags.said() if f in {"--min-groups", "--max-groups"}]
    if bounds:
        issues.append(
            Issue(
                code="scaling.conflict",
                what=f"{', '.join(bounds)} with --scenario elastic-ep",
                why="its sizes are widths of one group, and as many replicas as the widest has ranks for",
                fix="--dp-sizes 8,16",
            )
        )
    widths = None
    if flags.dp_sizes is not None:
        try:
            widths = tuple(int(x) for x in flags.dp_sizes.split(","))
        except ValueError:
            issues.append(
                Issue(
                    code="elastic.widths",
                    what=f"'{flags.dp_sizes}'",
                    why="expected DP sizes with commas between them",
                    fix="--dp-sizes 8,16",
                    where="--dp-sizes",
                )
            )
    if issues or basics is None:
        raise InputError(*issues)
    how = Reconfiguration(
        prepare_s=times["--prepare-s"],
        pause_s=times["--pause-s"],
        live=False,
        drain_timeout_s=times["--drain-timeout-s"],
    )
    return ElasticAsked(basics=basics, how=how, widths=widths)


def require_rebalancing(flags: ScalingFlags) -> None:
    """Raise `InputError` for flags that async-eplb has no use for."""
    useless = [f for f in flags.said() if f not in {"--pause-s", "--ttft-ms", "--tpot-ms"}]
    if useless:
        raise InputError(
            Issue(
                code="scaling.conflict",
                what=f"{', '.join(useless)} with --scenario async-eplb",
                why="it plays the plan at its own concurrency, without a load curve",
                fix=f"leave {'it' if len(useless) == 1 else 'them'} out",
            )
        )


def _per_role(pairs: Sequence[str] | None, roles: Sequence[str], flag: str) -> dict[str, str]:
    """Texts per role from ``ROLE=VALUE``; a bare value where there is one role. Raises `InputError`."""
    out: dict[str, str] = {}
    issues = []
    for pair in pairs or ():
        role, sep, value = pair.partition("=")
        if not sep and len(roles) == 1:
            role, value = roles[0], pair
        if not value or (not sep and len(roles) > 1):
            issues.append(
                Issue(
                    code="scaling.role",
                    what=f"'{pair}'",
                    why="expected ROLE=VALUE",
                    fix=f"{flag} {roles[0]}=…",
                    where=flag,
                )
            )
        elif role not in roles:
            issues.append(
                Issue(
                    code="scaling.role",
                    what=f"the plan has no role '{role}'",
                    why=f"its roles are {', '.join(roles)}",
                    fix=did_you_mean(role, roles),
                    where=flag,
                )
            )
        out[role] = value
    if issues:
        raise InputError(*issues)
    return out


def asked_of(cluster: Cluster, flags: ScalingFlags) -> Mapping[str, RoleAsked]:
    """Metric, target and bounds per role. Raises `InputError` naming all that are wrong."""
    from planner.simulation.scaling.compare import RoleAsked, default_metric
    from planner.simulation.scaling.policy import Metric

    roles = [r.name for r in cluster.roles]
    issues: list[Issue] = []
    texts: dict[str, dict[str, str]] = {}
    for name in ("metric", "target", "min_groups", "max_groups"):
        try:
            texts[name] = _per_role(getattr(flags, name), roles, "--" + name.replace("_", "-"))
        except InputError as error:
            issues += error.issues
            texts[name] = {}

    def number(name: str, role: str, low: float) -> float | None:
        text = texts[name].get(role)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        whole = name == "target" or value == int(value) if value == value else False
        if not (value > low and whole and value < 1e9):
            issues.append(
                Issue(
                    code="scaling.role",
                    what=f"{role}={text}",
                    why="expected a positive number"
                    if name == "target"
                    else "expected a positive whole number",
                    fix=f"--{name.replace('_', '-')} {role}=2",
                    where="--" + name.replace("_", "-"),
                )
            )
            return None
        return value

    out = {}
    for r in cluster.roles:
        text = texts["metric"].get(r.name)
        metric = default_metric(r.role)
        if text is not None:
            if text in {m.value for m in Metric}:
                metric = Metric(text)
            else:
                issues.append(
                    Issue(
                        code="scaling.metric",
                        what=f"'{text}' is not a metric",
                        why=f"a role is scaled on {', '.join(m.value for m in Metric)}",
                        fix=did_you_mean(text, [m.value for m in Metric]),
                        where="--metric",
                    )
                )
        least, most = number("min_groups", r.name, 0), number("max_groups", r.name, 0)
        out[r.name] = RoleAsked(
            metric=metric,
            target=number("target", r.name, 0.0),
            least=1 if least is None else int(least),
            most=None if most is None else int(most),
        )
    if issues:
        raise InputError(*issues)
    return out


def targets_of(plan: DeploymentPlan, flags: ScalingFlags) -> SloTargets:
    """Targets to count against. Raises `InputError` when there are none."""
    from planner.domain.workload import SloTargets

    wrong = [
        Issue(
            code="scaling.targets",
            what=f"{flag} {value:g}",
            why="a target is a positive number of milliseconds",
            fix=f"{flag} {usual}",
            where=flag,
        )
        for flag, value, usual in (("--ttft-ms", flags.ttft_ms, 2000), ("--tpot-ms", flags.tpot_ms, 50))
        if value is not None and not 0.0 < value < 1e9
    ]
    if wrong:
        raise InputError(*wrong)
    slo = SloTargets(
        ttft_ms=plan.slo.ttft_ms if flags.ttft_ms is None else flags.ttft_ms,
        tpot_ms=plan.slo.tpot_limit_ms if flags.tpot_ms is None else flags.tpot_ms,
    )
    if slo.ttft_ms is None and slo.tpot_ms is None:
        raise InputError(
            Issue(
                code="scaling.targets",
                what="the plan has no targets",
                why="without one, the smallest fleet is always best",
                fix="--ttft-ms 2000 --tpot-ms 50",
            )
        )
    return slo


def shape_asked(plan: DeploymentPlan, *, workload: str | None, length_cv: float, shared_prefix: int) -> Shape:
    """The shape of requests; traces carry their own times and are refused. Raises `InputError`."""
    from planner.simulation.workloads import shape_of

    w = plan.workload
    own = workload is None
    shape = shape_of(
        workload or f"{w.isl}/{w.osl}",
        length_cv=length_cv or (w.length_cv if own else 0.0),
        shared_prefix_tokens=shared_prefix or (int(w.isl * w.prefix_hit) if own else 0),
    )
    if shape is None:
        raise InputError(
            Issue(
                code="scaling.workload",
                what=f"workload '{workload}' with a load curve",
                why="the curve says when requests come, so the workload must be a shape: ISL/OSL or seed-talk",
                fix="--workload 8000/1000, and your trace's rates as --load-curve FILE.csv",
                where="--workload",
            )
        )
    return shape
