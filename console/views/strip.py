"""The topology strip: gateway → picker → prefill groups → transfer → decode groups, with rates on the arrows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from console.cluster.metrics.samples import Hist
from console.cluster.state import Snapshot
from console.views.cluster import ClusterOverview, RoleRow
from console.views.metrics import count
from planner.domain.deployment import DeploymentPlan, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class StripBox:
    """One stage. `health` is ready, progressing, down, or absent (nothing of the kind is there)."""

    title: str
    lines: tuple[str, ...]
    health: str
    arrow: str = ""  # what flows on to the next box


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The boxes in the direction of a request; `ratio` compares prefill and decode groups with the plan."""

    boxes: tuple[StripBox, ...]
    ratio: str


def strip_of(snapshot: Snapshot, overview: ClusterOverview, *, plan: DeploymentPlan | None = None) -> Strip:
    """Build the strip; with `plan` the ratio says what was planned."""
    roles = {r.role: r for r in overview.roles}
    prefill, decode = roles.get("prefill"), roles.get("decode")
    boxes = [_gateway(snapshot), _picker(snapshot)]
    if prefill is not None or decode is not None:
        boxes.append(_role("prefill", prefill, arrow=_transfer(snapshot)))
        boxes.append(_role("decode", decode))
    boxes.extend(_role(name, row) for name, row in sorted(roles.items()) if name not in {"prefill", "decode"})
    return Strip(boxes=tuple(boxes), ratio=_ratio(prefill, decode, plan))


def _gateway(snapshot: Snapshot) -> StripBox:
    gateways = list(snapshot.gateways.values())
    if not gateways:
        return StripBox(title="gateway", lines=("none",), health="absent", arrow=_requests(snapshot))
    up = sum(any(c.type == "Programmed" and c.holds for c in g.conditions) for g in gateways)
    return StripBox(
        title="gateway",
        lines=(gateways[0].meta.name, f"{up}/{len(gateways)} programmed"),
        health="ready" if up == len(gateways) else "progressing" if up else "down",
        arrow=_requests(snapshot),
    )


def _requests(snapshot: Snapshot) -> str:
    rates = [r.requests_per_s for r in snapshot.readings.values() if r.requests_per_s is not None]
    return f"{sum(rates):.1f} req/s" if rates else ""


def _picker(snapshot: Snapshot) -> StripBox:
    pickers = [d for d in snapshot.deployments.values() if d.picker_for]
    prompt = _total(r.prompt_tok_s for r in snapshot.readings.values())
    arrow = f"{count(prompt)} tok/s in" if prompt is not None else ""
    if not pickers:
        return StripBox(title="picker", lines=("none",), health="absent", arrow=arrow)
    ready, wanted = sum(d.ready for d in pickers), sum(d.replicas for d in pickers)
    sample = next(iter(snapshot.pickers.values()), None)
    spread = "" if sample is None or sample.queue_spread is None else f"queue σ {sample.queue_spread:.1f}"
    return StripBox(
        title="picker",
        lines=(f"{ready}/{wanted} ready", *((spread,) if spread else ())),
        health="ready" if ready >= wanted else "progressing" if ready else "down",
        arrow=arrow,
    )


def _role(name: str, row: RoleRow | None, *, arrow: str = "") -> StripBox:
    if row is None:
        return StripBox(title=name, lines=("none",), health="absent", arrow=arrow)
    wanted = row.wanted if row.wanted is not None else row.groups
    rate = row.prompt_tok_s if name == "prefill" else row.output_tok_s
    lines = [f"{row.ready}/{wanted} groups", f"{row.gpus} GPUs, {row.ranks} ranks"]
    if rate is not None:
        lines.append(f"{count(rate)} tok/s")
    if row.waiting is not None:
        lines.append(f"{count(row.waiting)} waiting")
    return StripBox(title=name, lines=tuple(lines), health=row.health, arrow=arrow)


def _transfer(snapshot: Snapshot) -> str:
    """KV transfer rate over the window, from the bytes histograms."""
    rates = []
    for reading in snapshot.readings.values():
        moved = reading.histograms.get(Hist.TRANSFER_BYTES)
        if moved is not None and reading.window_s > 0.0:
            rates.append(moved.sum / reading.window_s)
    return f"{sum(rates) / 1e9:.2f} GB/s KV" if rates else "KV"


def _total(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _ratio(prefill: RoleRow | None, decode: RoleRow | None, plan: DeploymentPlan | None) -> str:
    if prefill is None or decode is None:
        return ""
    live = f"P:D groups {prefill.ready}:{decode.ready}"
    if plan is None:
        return live
    wanted = [plan.role(Role.PREFILL), plan.role(Role.DECODE)]
    if wanted[0] is None or wanted[1] is None:
        return f"{live}, the plan is aggregated"
    planned = f"{wanted[0].groups}:{wanted[1].groups}"
    return f"{live}, planned {planned}" + ("" if planned == f"{prefill.ready}:{decode.ready}" else " ≠")
