"""Workloads by name or file: ``seed-talk``, ``ISL/OSL``, or a trace."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from planner.domain.errors import InputError, Issue
from planner.simulation.traces import read_trace
from planner.simulation.traffic import SEED_TALK, Arrival, Shape, Traffic, make_traffic, single

BUILT_IN = {"seed-talk": SEED_TALK}
REQUESTS_PER_SLOT = 20  # closed loop: requests per slot when no number is given
LEAST_REQUESTS = 1500
MOST_REQUESTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says about traffic; None is "not said"."""

    workload: str
    arrival: Arrival
    concurrency: int
    rate_per_s: float | None = None
    requests: int | None = None
    cv: float = 1.0
    length_cv: float = 0.0
    spread_s: float | None = None
    shared_prefix_tokens: int = 0


def shape_of(text: str, *, length_cv: float, shared_prefix_tokens: int) -> Shape | None:
    """A built-in or ``ISL/OSL`` shape; None when `text` is something else."""
    if text in BUILT_IN:
        return replace(BUILT_IN[text], length_cv=length_cv, system_tokens=shared_prefix_tokens)
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None:
        return None
    isl, osl = int(found[1]), int(found[2])
    if shared_prefix_tokens >= isl > 0:
        raise InputError(
            Issue(
                code="workload.prefix",
                what=f"a shared prefix of {shared_prefix_tokens} tokens in prompts of {isl}",
                why="the prompt must be longer than what all requests share",
                fix=f"--shared-prefix {isl // 2}",
            )
        )
    shape = single(isl - shared_prefix_tokens, osl, length_cv, text)
    return replace(shape, system_tokens=shared_prefix_tokens, shares_prefixes=shared_prefix_tokens > 0)


def traffic_of(asked: Asked, *, seed: int) -> Traffic:
    """Draw the traffic asked for. Raises `InputError` for contradictions and bad traces."""
    shape = shape_of(
        asked.workload, length_cv=asked.length_cv, shared_prefix_tokens=asked.shared_prefix_tokens
    )
    if shape is None:
        return read_trace(Path(asked.workload), limit=asked.requests)
    turns = len(shape.turns)
    usual = min(max(LEAST_REQUESTS, REQUESTS_PER_SLOT * asked.concurrency), MOST_REQUESTS)
    sessions = math.ceil((usual if asked.requests is None else asked.requests) / turns)
    return make_traffic(
        shape,
        sessions=sessions,
        seed=seed,
        arrival=asked.arrival,
        concurrency=asked.concurrency,
        rate_per_s=(asked.rate_per_s or 0.0) / turns,
        cv=asked.cv,
        spread_s=asked.spread_s or 0.0,
    )
