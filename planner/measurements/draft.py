"""What an importer found in a file, before anything missing is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from planner.domain.deployment import Role
from planner.domain.errors import Issue
from planner.domain.measurement import Latency, MeasuredLoad, MeasurementFlag


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleDraft:
    """One role; `gpu` None = the GPU type of the run. GPUs = groups x tp x dp."""

    role: Role
    groups: int
    tp: int
    dp: int
    ep: int
    dcp: int = 1
    gpu: str | None = None

    @property
    def gpus(self) -> int:
        """GPUs of the role."""
        return self.groups * self.tp * self.dp


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Rates of the whole deployment, not per GPU."""

    output_tok_s: float | None = None
    input_tok_s: float | None = None
    total_tok_s: float | None = None
    requests_per_s: float | None = None

    @property
    def input_or_rest_tok_s(self) -> float | None:
        """Input rate, or total minus output where only those are given."""
        if self.input_tok_s is not None or self.total_tok_s is None or self.output_tok_s is None:
            return self.input_tok_s
        return self.total_tok_s - self.output_tok_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One run of a file. None = the file does not say; `roles` empty = it does not say the widths.

    `issues` are contradictions the importer found inside the file; such a run is refused.
    """

    position: str = ""
    model: str | None = None
    gpu: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    roles: tuple[RoleDraft, ...] = ()
    isl: int | None = None
    osl: int | None = None
    prefix_hit: float = 0.0
    length_cv: float = 0.0
    load: MeasuredLoad | None = None
    dbo: bool | None = None
    eplb: bool | None = None
    mtp: bool | None = None
    draft_tokens: int | None = None
    acceptance_length: float | None = None
    quantization: str | None = None
    totals: Totals = field(default_factory=Totals)
    ttft: Latency = field(default_factory=Latency)
    tpot: Latency = field(default_factory=Latency)
    itl: Latency = field(default_factory=Latency)
    e2e: Latency = field(default_factory=Latency)
    completed: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    warm_up: bool | None = None  # None: the format cannot say
    measured_at: datetime | None = None
    tool_version: str | None = None
    flags: tuple[MeasurementFlag, ...] = ()
    note: str = ""
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """What the user states about every imported run. `override` lets it win over what a file says."""

    model: str | None = None
    gpu: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    roles: tuple[RoleDraft, ...] = ()
    isl: int | None = None
    osl: int | None = None
    prefix_hit: float | None = None
    load: MeasuredLoad | None = None
    dbo: bool | None = None
    eplb: bool | None = None
    mtp: bool | None = None
    draft_tokens: int | None = None
    quantization: str | None = None
    note: str = ""
    override: bool = False


_LABEL: Final = re.compile(r"(?:(?P<groups>\d+)\s*[xX*]\s*)?\(?(?P<widths>[a-z0-9, =]+)\)?")
_WIDTH: Final = re.compile(r"(tp|dp|ep|dcp)\s*=?\s*(\d+)")


def parse_role(label: str, role: Role, *, gpu: str | None = None) -> RoleDraft | None:
    """A role from a label such as ``2x(tp1,dp8,ep8)`` or ``tp8``; None when it is not one.

    Without ``ep`` experts are sharded like the dense layers (EP 1).
    """
    match = _LABEL.fullmatch(label.strip().lower())
    if match is None:
        return None
    widths: dict[str, int] = {}
    for part in match["widths"].split(","):
        width = _WIDTH.fullmatch(part.strip())
        if width is None or width[1] in widths or int(width[2]) < 1:
            return None
        widths[width[1]] = int(width[2])
    return from_widths(widths, role, groups=int(match["groups"] or 1), gpu=gpu)


def from_widths(widths: Mapping[str, int], role: Role, *, groups: int, gpu: str | None = None) -> RoleDraft:
    """A role from tp, dp, ep and dcp by name; absent ones are 1."""
    return RoleDraft(
        role=role,
        groups=groups,
        tp=widths.get("tp", 1),
        dp=widths.get("dp", 1),
        ep=widths.get("ep", 1),
        dcp=widths.get("dcp", 1),
        gpu=gpu,
    )
