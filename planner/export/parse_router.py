"""A RouterPolicy from an EndpointPickerConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.domain.deployment import DeploymentPlan, RouterKind, RouterPolicy, Scorer, Strategy
from planner.domain.errors import InputError
from planner.export.bundle import Bundle, RouterView
from planner.export.dialects import DIALECTS
from planner.export.plugins import PLUGINS, Stage
from planner.export.router import router_config
from planner.export.values import Table, dig, number, rows, table

_KEEP = (Stage.SCORER, Stage.FILTER, Stage.PICKER)
_ROLE_FILTERS = ("prefill-filter", "decode-filter", "encode-filter")


def policy_of(seen: Bundle, plan: DeploymentPlan, intended: RouterPolicy | None) -> RouterPolicy:
    """The policy the router runs: the intended one when it renders to the configuration found, else read from it."""
    if not seen.routers:
        return intended or RouterPolicy()
    router = seen.routers[0]
    if intended is not None and _renders_to(replace(plan, router=intended), router):
        return intended
    return _read(router, plan)


def _renders_to(plan: DeploymentPlan, router: RouterView) -> bool:
    try:
        made = router_config(plan, DIALECTS[0]).plain()
    except InputError:
        return False
    found = dict(router.config)
    if not isinstance(made, dict):
        return False
    return {k: v for k, v in made.items() if k != "apiVersion"} == {
        k: v for k, v in found.items() if k != "apiVersion"
    }


def _read(router: RouterView, plan: DeploymentPlan) -> RouterPolicy:
    entries: dict[str, Table] = {str(p.get("name") or p.get("type")): p for p in router.plugins}
    profiles = {str(p.get("name")): _scorers(p, entries) for p in router.profiles}
    decider, parameters = "always-disagg-pd-decider", {}
    for entry in entries.values():
        known = PLUGINS.get(str(entry.get("type")))
        if known is not None and known.stage is Stage.DECIDER:
            decider = known.type
            parameters = {
                str(k): n for k, v in table(entry.get("parameters")).items() if (n := number(v)) is not None
            }
    if plan.strategy is Strategy.AGGREGATED:
        only = next(iter(profiles.values()), ())
        return RouterPolicy(kind=_kind(only), decode_scorers=only)
    return RouterPolicy(
        kind=RouterKind.LLM_D,
        prefill_scorers=profiles.get("prefill", ()),
        decode_scorers=profiles.get("decode", ()),
        decider=decider,
        decider_parameters=parameters,
    )


def _kind(scorers: tuple[Scorer, ...]) -> RouterKind:
    types = {s.type for s in scorers}
    if types == {"random-picker"}:
        return RouterKind.RANDOM
    return RouterKind.LEAST_QUEUE if types == {"queue-scorer"} else RouterKind.LLM_D


def _scorers(profile: Table, entries: Mapping[str, Table]) -> tuple[Scorer, ...]:
    out = []
    for raw in rows(profile.get("plugins")):
        entry = entries.get(str(table(raw).get("pluginRef")), {})
        kind = str(entry.get("type"))
        known = PLUGINS.get(kind)
        if known is None or known.stage not in _KEEP or kind in _ROLE_FILTERS:
            continue
        weight = dig(raw, "weight")
        out.append(
            Scorer(
                type=kind,
                weight=float(weight) if isinstance(weight, int | float) else 1.0,
                parameters={
                    str(k): v
                    for k, v in table(entry.get("parameters")).items()
                    if isinstance(v, str | int | float | bool)
                },
            )
        )
    return tuple(out)
