"""Traffic as arrays: who arrives when, how long the prompts and answers are, and which prefixes they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from planner.domain.errors import InputError, Issue

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Arrival(StrEnum):
    """How requests (or sessions) enter."""

    CLOSED = "closed"  # a fixed number in flight; the next enters when one leaves
    POISSON = "poisson"
    GAMMA = "gamma"  # inter-arrival times with a given coefficient of variation
    RAMP = "ramp"  # Poisson whose rate grows linearly from 0 to twice the mean
    BURST = "burst"  # all within `spread_s`


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of one run. All arrays have one element per request unless noted.

    `arrival_s` is NaN for requests that enter when another finishes: `follow` (the next turn of a session, after
    `think_s`) or `pool` (session heads a closed loop issues in order). Paths are radix-tree nodes along the prompt with
    the prompt tokens up to each node's end; a request without a path shares nothing.
    """

    label: str
    arrival_s: Floats
    isl: Ints
    osl: Ints
    think_s: Floats
    follow: Ints
    session: Ints
    path_start: Ints
    path_nodes: Ints  # [paths]
    path_ends: Ints  # [paths]
    pool: Ints  # [sessions that wait]
    nodes: int
    sessions: int
    closed: bool
    warmup: int  # requests at the start that are left out of the figures

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.isl)


def lengths(rng: np.random.Generator, mean: int, cv: float, count: int) -> Ints:
    """Token counts with the given mean and coefficient of variation (lognormal, at least 1); exact when `cv` is 0."""
    if cv <= 0.0:
        return np.full(count, max(mean, 1), dtype=np.int32)
    sigma2 = np.log1p(cv * cv)
    draws = rng.lognormal(np.log(mean) - 0.5 * sigma2, np.sqrt(sigma2), count)
    return np.maximum(np.rint(draws), 1.0).astype(np.int32)


def arrival_times(
    rng: np.random.Generator,
    count: int,
    *,
    kind: Arrival,
    rate_per_s: float,
    cv: float = 1.0,
    spread_s: float = 0.0,
) -> Floats:
    """Sorted arrival times in seconds for an open process of `kind` with mean `rate_per_s`."""
    if kind is Arrival.POISSON:
        return np.cumsum(rng.exponential(1.0 / rate_per_s, count))
    if kind is Arrival.GAMMA:
        shape = 1.0 / (cv * cv)
        return np.cumsum(rng.gamma(shape, 1.0 / (rate_per_s * shape), count))
    if kind is Arrival.RAMP:
        # cumulative rate r t^2 / T with T = count / r: invert it at the points of a unit Poisson process
        horizon = count / rate_per_s
        return np.sqrt(np.cumsum(rng.exponential(1.0, count)) * horizon / rate_per_s)
    return np.sort(rng.uniform(0.0, max(spread_s, 1e-9), count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One user turn: new prompt tokens and answer tokens."""

    new_tokens: int
    answer_tokens: int
    think_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sessions of one kind: turns, a shared system prompt, and how lengths vary.

    `system_tokens` come first in every prompt; `system_prompts` different ones are dealt out round robin.
    """

    label: str
    turns: tuple[Turn, ...]
    system_tokens: int = 0
    system_prompts: int = 1
    length_cv: float = 0.0
    shares_prefixes: bool = True


SEED_TALK = Shape(
    label="seed-talk",
    turns=(
        Turn(new_tokens=10_000, answer_tokens=2_000),
        *(Turn(new_tokens=500, answer_tokens=2_000) for _ in range(5)),
    ),
)
"""10,000 in / 2,000 out, then five turns of 500 new tokens: the workload of the seed talk."""


def single(isl: int, osl: int, cv: float = 0.0, label: str | None = None) -> Shape:
    """Independent requests that share nothing."""
    return Shape(
        label=label or f"{isl}/{osl}",
        turns=(Turn(new_tokens=isl, answer_tokens=osl),),
        length_cv=cv,
        shares_prefixes=False,
    )


def make_traffic(
    shape: Shape,
    *,
    sessions: int,
    seed: int,
    arrival: Arrival = Arrival.CLOSED,
    concurrency: int = 0,
    rate_per_s: float = 0.0,
    cv: float = 1.0,
    spread_s: float = 0.0,
    warmup_share: float = 0.1,
) -> Traffic:
    """Draw `sessions` sessions of `shape`.

    Closed loop: `concurrency` sessions at a time, the first ones spread over `spread_s`. Open: `rate_per_s` sessions per
    second. The draws of lengths and arrivals come from separate streams, so changing one leaves the other alone.
    """
    _check(shape, sessions=sessions, arrival=arrival, concurrency=concurrency, rate_per_s=rate_per_s)
    length_rng, arrival_rng = (np.random.default_rng([seed, k]) for k in (1, 2))
    turns = len(shape.turns)
    n = sessions * turns
    isl = np.empty((sessions, turns), dtype=np.int32)
    osl = np.empty((sessions, turns), dtype=np.int32)
    think = np.empty((sessions, turns))
    history = np.full(sessions, shape.system_tokens, dtype=np.int32)
    for t, turn in enumerate(shape.turns):
        new = lengths(length_rng, turn.new_tokens, shape.length_cv, sessions)
        osl[:, t] = lengths(length_rng, turn.answer_tokens, shape.length_cv, sessions)
        isl[:, t] = history + new
        history = isl[:, t] + osl[:, t]
        think[:, t] = turn.think_s
    follow = np.arange(1, n + 1, dtype=np.int32).reshape(sessions, turns)
    follow[:, -1] = -1
    heads = np.arange(sessions, dtype=np.int32) * turns
    times = np.full(n, np.nan)
    if arrival is Arrival.CLOSED:
        first = min(concurrency, sessions)
        times[heads[:first]] = arrival_times(
            arrival_rng, first, kind=Arrival.BURST, rate_per_s=0.0, spread_s=spread_s
        )
        pool = heads[first:]
    else:
        times[heads] = arrival_times(
            arrival_rng, sessions, kind=arrival, rate_per_s=rate_per_s, cv=cv, spread_s=spread_s
        )
        pool = heads[:0]
    session = np.repeat(np.arange(sessions, dtype=np.int32), turns)
    traffic = Traffic(
        label=shape.label,
        arrival_s=times,
        isl=isl.ravel(),
        osl=osl.ravel(),
        think_s=think.ravel(),
        follow=follow.ravel(),
        session=session,
        path_start=np.zeros(n + 1, dtype=np.int32),
        path_nodes=np.zeros(0, dtype=np.int32),
        path_ends=np.zeros(0, dtype=np.int32),
        pool=pool,
        nodes=0,
        sessions=sessions,
        closed=arrival is Arrival.CLOSED,
        warmup=_warmup(n, warmup_share, first * turns if arrival is Arrival.CLOSED else 0),
    )
    return _with_paths(traffic, shape) if shape.shares_prefixes else traffic


def _warmup(requests: int, share: float, first_wave: int) -> int:
    """The stated share, and in a closed loop all who came in the first wave, as long as that leaves half."""
    if share <= 0.0:
        return 0
    return max(int(requests * share), min(first_wave, requests // 2))


def _with_paths(traffic: Traffic, shape: Shape) -> Traffic:
    """Node per system prompt and per session; each prompt's path is system prompt, then session."""
    n = traffic.requests
    own = traffic.session + shape.system_prompts
    if shape.system_tokens == 0:
        return replace(
            traffic,
            path_start=np.arange(n + 1, dtype=np.int32),
            path_nodes=own.astype(np.int32),
            path_ends=traffic.isl.copy(),
            nodes=traffic.sessions + shape.system_prompts,
        )
    nodes = np.stack([traffic.session % shape.system_prompts, own], axis=1)
    ends = np.stack([np.full(n, shape.system_tokens, dtype=np.int32), traffic.isl], axis=1)
    return replace(
        traffic,
        path_start=np.arange(0, 2 * n + 1, 2, dtype=np.int32),
        path_nodes=nodes.ravel().astype(np.int32),
        path_ends=ends.ravel().astype(np.int32),
        nodes=traffic.sessions + shape.system_prompts,
    )


def _check(shape: Shape, *, sessions: int, arrival: Arrival, concurrency: int, rate_per_s: float) -> None:
    issues = []
    if sessions < 1 or not shape.turns:
        issues.append(
            Issue(
                code="workload.empty",
                what=f"workload '{shape.label}' with {sessions} sessions of {len(shape.turns)} turns",
                why="there is nothing to simulate",
                fix="ask for at least one request: --requests 1000",
            )
        )
    if any(t.new_tokens < 1 or t.answer_tokens < 1 for t in shape.turns):
        issues.append(
            Issue(
                code="workload.length",
                what=f"workload '{shape.label}' has a turn without tokens",
                why="every request needs a prompt token and an output token",
                fix="give positive lengths, e.g. 1024/256",
            )
        )
    if arrival is Arrival.CLOSED and concurrency < 1:
        issues.append(
            Issue(
                code="workload.concurrency",
                what=f"closed loop with concurrency {concurrency}",
                why="a closed loop keeps a fixed number of requests in flight",
                fix="--concurrency 64, or an open arrival process: --arrival poisson --rate 2",
            )
        )
    if arrival in {Arrival.POISSON, Arrival.GAMMA, Arrival.RAMP} and not rate_per_s > 0.0:
        issues.append(
            Issue(
                code="workload.rate",
                what=f"{arrival} arrivals at {rate_per_s} per second",
                why="an open arrival process needs a positive rate",
                fix="--rate 2",
            )
        )
    if issues:
        raise InputError(*issues)
