"""Steady state of one role under a closed loop, solved in closed form along the decode batch.

Every equation is written with the mean decode batch per rank `b` as the free variable, so that the offered concurrency
is an *output*: no iteration, one array pass over the whole space. Units: milliseconds, tokens, requests; per DP rank.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.analytic.stack import RoleStack, StepLoad
from planner.domain.workload import Workload
from planner.perf.operators.base import BoolArray, FloatArray

SQRT12 = 12.0**0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePoints:
    """Decode role. `rate_per_ms`: requests finished per ms and rank."""

    batch: FloatArray
    step_ms: FloatArray
    admission_ms: FloatArray  # from the arrival of the prompt's KV to the first token of this role
    tpot_ms: FloatArray
    rate_per_ms: FloatArray
    feasible: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillPoints:
    """Prefill role, ``[C, 1]`` columns. `idle_ms`: TTFT part of a lone prompt; `busy_ms`: of a prompt in a full group.

    `step_ms`: a step full of whole prompts. `capacity_per_ms`: prompts per ms and rank when every step is filled to its
    token budget. `chunks`: steps per prompt. `ranks`: of one group; its steps are common to all. `length_cv`: spread of
    the prompts' lengths.
    """

    idle_ms: FloatArray
    busy_ms: FloatArray
    step_ms: FloatArray
    capacity_per_ms: FloatArray
    prompts_per_step: FloatArray
    chunks: FloatArray
    ranks: FloatArray
    frontend_ms: FloatArray
    length_cv: FloatArray

    def rows(self, index: NDArray[np.integer]) -> PrefillPoints:
        """The points of configurations `index`."""
        return PrefillPoints(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatedPoints:
    """Aggregated role. `concurrency`: requests in flight per rank, prefilling ones included.

    `service_ms`: time a rank's prefill is taken up by one prompt; `wait_ms`: part of `ttft_ms` spent waiting for it.
    """

    batch: FloatArray
    step_ms: FloatArray
    decode_step_ms: FloatArray
    mixed_step_ms: FloatArray
    prefill_share: FloatArray  # share of steps that carry a prefill somewhere in the group
    tpot_ms: FloatArray
    ttft_ms: FloatArray
    concurrency: FloatArray
    rate_per_ms: FloatArray
    service_ms: FloatArray
    wait_ms: FloatArray
    feasible: BoolArray


def length_cv_of_context(workload: Workload) -> float:
    """Coefficient of variation of a running sequence's length: progress through the output plus length spread."""
    mean = workload.mean_context
    progress = workload.osl / SQRT12
    spread = workload.length_cv * workload.isl
    return float(np.hypot(progress, spread) / max(mean, 1.0))


def sequences_that_fit(kv_tokens: FloatArray, workload: Workload) -> FloatArray:
    """Mean running sequences per rank that the KV pool sustains without preempting.

    A running sequence holds its prompt and on average half its output; two standard deviations of the sum are kept
    free. Zero where not even one whole request fits.
    """
    mean = workload.mean_context
    sd = length_cv_of_context(workload) * mean
    # b mean + 2 sd sqrt(b) = kv  =>  quadratic in sqrt(b)
    root = (-2.0 * sd + np.sqrt(4.0 * sd**2 + 4.0 * mean * np.maximum(kv_tokens, 0.0))) / (2.0 * mean)
    result: FloatArray = np.where(kv_tokens >= workload.context_at_end, np.maximum(root**2, 1.0), 0.0)
    return result


def decode_points(stack: RoleStack, workload: Workload, batch: FloatArray) -> DecodePoints:
    """Decode role of a disaggregated plan at mean `batch` per rank ([C, L] or [1, L])."""
    b = np.broadcast_to(batch, (len(stack), batch.shape[1])).astype(np.float64)
    attention = stack.decode_attention_ms(b, workload.mean_context, length_cv_of_context(workload))
    tokens = b * (1.0 + stack.drafts)
    step = stack.step_ms(
        StepLoad(max_tokens=tokens, mean_tokens=tokens, sequences=b, attention_ms=attention), prefill=False
    )
    tpot = step / stack.accepted
    fits = b <= np.minimum(sequences_that_fit(stack.kv_tokens, workload), stack.max_num_seqs)
    rate = b / (tpot * max(workload.osl - 1, 1))
    admission = stack.handover_ms + (1.0 + stack.balance_steps) * step
    return DecodePoints(
        batch=b, step_ms=step, admission_ms=admission, tpot_ms=tpot, rate_per_ms=rate, feasible=fits
    )


def prefill_points(stack: RoleStack, workload: Workload) -> PrefillPoints:
    """Prefill role of a disaggregated plan: service time of a prompt and capacity of a rank."""
    new_tokens = max(workload.new_tokens, 1.0)
    hit = workload.isl - new_tokens
    chunks = np.ceil(new_tokens / stack.budget)
    per_step = np.maximum(np.floor(stack.budget / new_tokens), 1.0)

    part = new_tokens / chunks
    attention = _chunked_attention(stack, part, chunks, hit)

    def step(prompts: FloatArray, others: float) -> FloatArray:
        """A step with `prompts` equal chunks on the busiest rank; `others`: share of that on the other ranks."""
        busy = part * prompts
        mean = busy * (others + (1.0 - others) / stack.ranks)
        return stack.step_ms(
            StepLoad(max_tokens=busy, mean_tokens=mean, sequences=prompts, attention_ms=attention * prompts),
            prefill=True,
        )

    one = np.ones_like(stack.budget)
    # an engine fills its budget with the next prompt's beginning
    filled = stack.budget / part
    # chunks are cut at the budget; the more ranks out of phase, the likelier a step meets a whole one somewhere
    crowded = np.where(chunks > 1.0, 1.0 + (filled - 1.0) * (1.0 - 1.0 / stack.ranks), one)
    return PrefillPoints(
        idle_ms=step(one, 0.0) * chunks,
        busy_ms=step(crowded, 1.0) * chunks,
        step_ms=step(per_step, 1.0),
        capacity_per_ms=filled / (step(filled, 1.0) * chunks),
        prompts_per_step=per_step,
        chunks=chunks,
        ranks=stack.ranks,
        frontend_ms=stack.frontend_ms,
        length_cv=np.full_like(stack.ranks, workload.length_cv),
    )


def _chunked_attention(stack: RoleStack, tokens: FloatArray, chunks: FloatArray, hit: float) -> FloatArray:
    """Mean core-attention time per chunk of a prompt in `chunks` chunks of `tokens`, after `hit` cached tokens."""
    mean = np.zeros_like(tokens)
    for count in np.unique(chunks):
        rows = chunks == count
        total = np.zeros_like(tokens)
        # beyond a handful of chunks, sample positions: attention is linear in the prefix
        positions = np.linspace(0.0, count - 1.0, int(min(count, 5)))
        for i in positions:
            prefix = hit + float(i * tokens[rows].mean())
            total = total + stack.prefill_attention_ms(tokens, prefix)
        mean = np.where(rows, total / len(positions), mean)
    return mean


def aggregated_points(stack: RoleStack, workload: Workload, batch: FloatArray) -> AggregatedPoints:
    """Aggregated role at mean decode `batch` per rank ([1, L] or [C, L])."""
    b = np.broadcast_to(batch, (len(stack), batch.shape[1])).astype(np.float64)
    new_tokens = max(workload.new_tokens, 1.0)
    hit = workload.isl - new_tokens
    osl = max(workload.osl, 1)
    decode_tokens = b * (1.0 + stack.drafts)
    cv = length_cv_of_context(workload)
    attention = stack.decode_attention_ms(b, workload.mean_context, cv)
    decode = stack.step_ms(
        StepLoad(max_tokens=decode_tokens, mean_tokens=decode_tokens, sequences=b, attention_ms=attention),
        prefill=False,
    )

    # one rank finishes, and so starts, this many requests per step
    starts = b * stack.accepted / osl
    beside = np.where(stack.separate, 0.0, decode_tokens)  # decode tokens that share the step with a prompt
    room = np.maximum(stack.budget - beside, 1.0)
    # fractional: the last chunk is as long as what is left, and shares its step with the next prompt's first
    chunks = np.maximum(new_tokens / room, 1.0)
    # prompts in steps of their own leave together whatever their chunks; mixed chunks take a step each
    event_rate = np.where(stack.separate, starts, starts * chunks)
    share_rank = 1.0 - np.exp(-event_rate)
    share_group = 1.0 - np.exp(-event_rate * stack.ranks)
    prefill_tokens = np.minimum(starts * new_tokens / np.maximum(share_rank, 1e-12), room)
    mean_prefill = np.minimum(starts * new_tokens / np.maximum(share_group, 1e-12), prefill_tokens)
    per_prompt = new_tokens / chunks
    prompts = np.maximum(prefill_tokens / per_prompt, 1.0)
    chunk_attention = _mixed_attention(stack, per_prompt, chunks, hit) * prompts
    loaded = stack.step_ms(
        StepLoad(
            max_tokens=beside + prefill_tokens,
            mean_tokens=beside + mean_prefill,
            sequences=np.where(stack.separate, prompts, b + 1.0),
            attention_ms=np.where(stack.separate, 0.0, attention) + chunk_attention,
        ),
        prefill=True,
    )
    # steps with prompts per decode step: mixed ones replace it, separate ones come on top
    pieces = np.where(
        stack.separate, np.maximum(starts * new_tokens / np.maximum(share_rank, 1e-12) / room, 1.0), 1.0
    )
    mixed = np.where(stack.separate, decode + pieces * loaded, np.maximum(loaded, decode))
    step = decode + share_group * (mixed - decode)
    tpot = step / stack.accepted
    own = np.where(stack.separate, np.maximum(chunks, 1.0) * loaded, chunks * np.maximum(loaded, decode))
    decoding = osl * tpot
    service = own / np.where(stack.separate, prompts, 1.0)  # a separate step serves all the prompts it holds
    wait = closed_loop_wait_ms(service_ms=service, away_ms=decoding, users=b * (1.0 + own / decoding))
    ttft = stack.frontend_ms + (0.5 + stack.balance_steps) * decode + wait + own
    rate = starts / step
    concurrency = b + rate * ttft
    limit = np.minimum(sequences_that_fit(stack.kv_tokens, workload), stack.max_num_seqs)
    feasible = (concurrency <= limit) & (starts * new_tokens <= room)
    return AggregatedPoints(
        batch=b,
        step_ms=step,
        decode_step_ms=decode,
        mixed_step_ms=mixed,
        prefill_share=share_group,
        tpot_ms=tpot,
        ttft_ms=ttft,
        concurrency=concurrency,
        rate_per_ms=rate,
        service_ms=service,
        wait_ms=wait,
        feasible=feasible,
    )


def _mixed_attention(stack: RoleStack, tokens: FloatArray, chunks: FloatArray, hit: float) -> FloatArray:
    """Core attention of one chunk at its mean prefix (attention is linear in the prefix)."""
    first = stack.prefill_attention_ms(tokens, hit)
    if float(chunks.max()) <= 1.0:
        return first
    far = hit + 16384.0
    slope = (stack.prefill_attention_ms(tokens, far) - first) / 16384.0
    result: FloatArray = first + slope * tokens * (chunks - 1.0) / 2.0
    return result


WAIT_SPREAD: Final = 0.46  # of the squared median wait per user at balance; tests/accuracy re-derive it


def closed_loop_wait_ms(*, service_ms: FloatArray, away_ms: FloatArray, users: FloatArray) -> FloatArray:
    """Median wait for a prefill server that `users` users visit, each `away_ms` between visits.

    With even lengths a closed loop keeps its order: nobody waits until the visits no longer fit between two of one's
    own (`users x service > away + service`), then everyone waits for the rest. Random lengths round the corner.
    """
    excess = users - away_ms / np.maximum(service_ms, 1e-9) - 1.0
    result: FloatArray = service_ms * 0.5 * (excess + np.sqrt(excess**2 + WAIT_SPREAD * users))
    return result


def waiting_ms(*, service_ms: FloatArray, utilisation: FloatArray, servers: FloatArray) -> FloatArray:
    """Mean wait for one of `servers` ranks, Poisson arrivals and fixed service; infinite at utilisation 1.

    Every rank has a queue of its own and a prompt cannot change it; a router that joins short queues makes `servers`
    separate queues act like about their square root of shared ones (the geometric mean of one queue each and one queue
    for all). One shared queue for all ranks would promise a quarter of the wait that the simulator shows near
    saturation. Sakasegawa's approximation for M/M/c, halved for deterministic service.
    """
    u = np.minimum(utilisation, 1.0 - 1e-9)
    shared = np.sqrt(np.maximum(servers, 1.0))
    power = u ** (np.sqrt(2.0 * (shared + 1.0)) - 1.0)
    result: FloatArray = 0.5 * service_ms * power / (shared * (1.0 - u))
    return result
