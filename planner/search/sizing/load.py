"""The load a fleet is sized for, the targets it must meet, and what must still hold when nodes are lost."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from planner.domain.errors import Issue
from planner.domain.workload import SloTargets

MAX_USERS: Final = 10_000_000
MAX_RATE_PER_S: Final = 1_000_000.0
MAX_SPARE_NODES: Final = 8
_RATE: Final = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>rps|rpm|rph)?\s*$", re.IGNORECASE)
_PER_SECOND: Final = {"rps": 1.0, "rpm": 1.0 / 60.0, "rph": 1.0 / 3600.0}


class LoadKind(StrEnum):
    """How requests arrive."""

    USERS = "users"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Load:
    """`amount` concurrently active users (a closed loop), or requests per second (Poisson arrivals).

    An active user always has one request in flight: the next one is sent as soon as the last is answered.
    """

    kind: LoadKind
    amount: float

    def text(self, amount: float | None = None) -> str:
        """``2,000 users`` or ``20 requests/s``; of `amount` when given."""
        value = self.amount if amount is None else amount
        if self.kind is LoadKind.USERS:
            return f"{value:,.0f} users"
        return f"{plain(value)} requests/s"


class Rollout(StrEnum):
    """How a new version replaces the old one: beside it, or one group in turn in its place."""

    SURGE = "surge"
    IN_PLACE = "in-place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Limits on the median TTFT and TPOT in ms; None means no limit."""

    ttft_ms: float | None
    tpot_ms: float | None

    @staticmethod
    def of(slo: SloTargets) -> Targets:
        """The limits that `slo` sets."""
        return Targets(ttft_ms=slo.ttft_ms, tpot_ms=slo.tpot_limit_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """What must hold beside the load: it is carried with any `spare_nodes` nodes lost, and during a `rollout`."""

    spare_nodes: int = 0
    rollout: Rollout | None = None


def plain(value: float) -> str:
    """Three significant digits without an exponent."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def parse_rate(text: str) -> float | None:
    """Requests per second of ``20``, ``20rps``, ``1200rpm`` or ``3600rph``; None when it is none of these."""
    match = _RATE.match(text)
    if match is None:
        return None
    return float(match["number"]) * _PER_SECOND[(match["unit"] or "rps").lower()]


def read_load(*, rate: str | None, users: int | None, targets: Targets) -> tuple[Load | None, list[Issue]]:
    """The load of the flags, and everything that is wrong with them."""
    if (rate is None) == (users is None):
        return None, [
            Issue(
                code="size.load",
                what="--rate and --users together" if rate is not None else "neither --rate nor --users",
                why="a fleet is sized for one load: requests per second, or users who always have a request in flight",
                fix="give --rate 20rps or --users 2000",
                where="--rate",
            )
        ]
    if rate is not None:
        return _rate(rate)
    return _users(int(users or 0), targets)


def _rate(text: str) -> tuple[Load | None, list[Issue]]:
    value = parse_rate(text)
    if value is not None and 0.0 < value <= MAX_RATE_PER_S and math.isfinite(value):
        return Load(LoadKind.RATE, value), []
    return None, [
        Issue(
            code="size.rate",
            what=f"--rate {text}",
            why="it is a number above 0, at most a million per second, with the unit rps, rpm or rph (per second, "
            "minute or hour)",
            fix="write it like 20rps or 1200rpm",
            where="--rate",
        )
    ]


def _users(users: int, targets: Targets) -> tuple[Load | None, list[Issue]]:
    if not 0 < users <= MAX_USERS:
        return None, [
            Issue(
                code="size.users",
                what=f"--users {users}",
                why="it is the number of users with a request in flight, 1 to 10 million",
                fix="give a number in that range",
                where="--users",
            )
        ]
    if targets.tpot_ms is None and targets.ttft_ms is None:
        return None, [
            Issue(
                code="size.no-target",
                what=f"--users {users} without a target",
                why="users wait as long as it takes, so without a target every fleet carries every number of them",
                fix="give --ttft-ms and --tpot-ms (or --tok-s-user), or ask with --rate",
                where="--users",
            )
        ]
    return Load(LoadKind.USERS, float(users)), []


def check_reserve(spare_nodes: int) -> list[Issue]:
    """What is wrong with the number of nodes that may fail."""
    if 0 <= spare_nodes <= MAX_SPARE_NODES:
        return []
    return [
        Issue(
            code="size.spare-nodes",
            what=f"--spare-nodes {spare_nodes}",
            why=f"it is the number of nodes that may fail together, 0 to {MAX_SPARE_NODES}",
            fix="give --spare-nodes 1 or 2; beyond 8, plan two fleets",
            where="--spare-nodes",
        )
    ]
