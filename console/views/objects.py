"""Objects of one kind as a table, and one object in full: what is held of it, nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.cluster.kinds import KINDS, Kind
from console.cluster.objects import EventView, GroupSetView, NodeView, PodView, View
from console.cluster.recording import to_plain
from console.cluster.state import Snapshot
from planner.domain.errors import did_you_mean
from planner.export.yaml import dump_document

ALIASES: Final = {
    "po": Kind.PODS,
    "pod": Kind.PODS,
    "no": Kind.NODES,
    "node": Kind.NODES,
    "ev": Kind.EVENTS,
    "lws": Kind.GROUP_SETS,
    "ds": Kind.DISAGGREGATED_SETS,
    "pool": Kind.POOLS,
    "deploy": Kind.DEPLOYMENTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRow:
    """One object. `state` is one or two words; `bad` when they name a fault."""

    key: str
    name: str
    state: str
    detail: str
    bad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectTable:
    """Objects of a kind; `note` says when they cannot be trusted."""

    kind: Kind
    rows: tuple[ObjectRow, ...]
    note: str


def find_kind(word: str) -> Kind | None:
    """The kind called `word`, by plural or short name."""
    return ALIASES.get(word) or next((k for k in Kind if k.value == word), None)


def unknown_kind(word: str) -> str:
    """What to type instead of `word`."""
    return did_you_mean(word, [k.value for k in Kind])


def object_table(snapshot: Snapshot, kind: Kind, *, faults_only: bool = False) -> ObjectTable:
    """Objects of `kind`: faults first, then by name; events newest first."""
    state = snapshot.kinds[kind]
    rows = [_row(key, view) for key, view in state.objects.items()]
    if faults_only:
        rows = [r for r in rows if r.bad]
    if kind is Kind.EVENTS:
        rows.sort(key=lambda r: r.detail, reverse=True)
    else:
        rows.sort(key=lambda r: (not r.bad, r.key))
    trusted = state.trust.value == "live"
    note = "" if trusted else f"{state.trust.value}: {state.why or KINDS[kind].purpose}"
    return ObjectTable(kind=kind, rows=tuple(rows), note=note)


def _row(key: str, view: View) -> ObjectRow:
    state, detail, bad = _words(view)
    return ObjectRow(key=key, name=view.meta.name, state=state, detail=detail, bad=bad)


def _words(view: View) -> tuple[str, str, bool]:
    if isinstance(view, PodView):
        waiting = next((c.waiting for c in view.containers if c.waiting), "")
        restarts = sum(c.restarts for c in view.containers)
        state = (
            "Terminating"
            if view.meta.deleting
            else waiting or ("Ready" if view.ready else view.reason or view.phase)
        )
        detail = f"{view.gpus} GPUs on {view.node or 'no node'}" + (
            f", {restarts} restarts" if restarts else ""
        )
        return state, view.unschedulable or detail, not view.ready
    if isinstance(view, NodeView):
        gpus = ", ".join(f"{n} {k}" for k, n in view.extended.items() if n)
        state = "Ready" if view.ready else "NotReady"
        state += " cordoned" if view.unschedulable else ""
        return state, ", ".join([gpus, *view.pressure]).strip(", "), not view.ready or bool(view.pressure)
    if isinstance(view, EventView):
        return (
            view.reason,
            f"{view.last} {view.about_kind}/{view.about_name} x{view.count}: {view.message}",
            view.type != "Normal",
        )
    if isinstance(view, GroupSetView):
        return (
            f"{view.ready}/{view.replicas} groups",
            f"{view.size} pods per group, {view.restart_policy}",
            view.ready < view.replicas,
        )
    conditions = getattr(view, "conditions", ())
    wrong = [
        c
        for c in conditions
        if c.status == "False" and c.type in {"Available", "Accepted", "Programmed", "ResolvedRefs"}
    ]
    if wrong:
        return wrong[0].type + "=False", f"{wrong[0].reason} {wrong[0].message}".strip(), True
    holds = [c.type for c in conditions if c.holds]
    return holds[0] if holds else "–", ", ".join(holds[1:]), False


def object_yaml(snapshot: Snapshot, kind: Kind, key: str) -> str | None:
    """What is held of an object, as YAML; None when it is gone. Environment and secrets are never held."""
    view = snapshot.kinds[kind].objects.get(key)
    if view is None:
        return None
    return dump_document({"kind": kind.value, **to_plain(view)})


def related_events(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    """Events about the object `name`, newest first."""
    found = [e for e in snapshot.events.values() if e.about_name == name]
    found.sort(key=lambda e: e.last, reverse=True)
    return tuple(f"{e.last} {e.type} {e.reason} x{e.count}: {e.message}" for e in found)
