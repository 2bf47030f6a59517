"""Parts of a step for one model on one GPU type, as arrays over the load grids; each computed once and remembered.

A component depends on few of a configuration's choices (attention projections only on TP, say), so a search over
thousands of configurations needs some hundreds of operator queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from planner.domain.deployment import All2AllBackend, Parallelism
from planner.domain.dtypes import KvDtype, WeightFormat
from planner.domain.model import (
    Attention,
    CompressedAttention,
    DenseMlp,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    ModelSpec,
    MoeMlp,
)
from planner.domain.provenance import Provenance
from planner.perf.balance import Phase, hottest_rank_factor
from planner.perf.operators.base import (
    Collective,
    ExchangeShape,
    ExpertShape,
    FloatArray,
    OperatorSource,
    OpTime,
)
from planner.perf.tables import BATCH, CHUNK, CONTEXT, PREFIX, TOKENS

BF16_BYTES: Final = 2.0
ELEMENTWISE_PASSES: Final = 4.0  # norm in and out, residual in and out, per half layer


@dataclass(frozen=True, slots=True)
class Part:
    """Milliseconds over a grid, the weakest provenance in it, and where the grid is inside the curves' data."""

    ms: FloatArray
    provenance: Provenance
    within: FloatArray  # 1.0 inside the data, 0.0 outside; same shape as ms


SIGNIFICANT_SHARE: Final = (
    0.15  # operators below this share of a part decide neither its source nor its range
)


class _Sum:
    """Adds operator times (us) into one part (ms).

    Source and range follow the operators that matter: those with a significant share of the part's time.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.us = np.zeros(shape)
        self.inside = np.zeros(shape)
        self.sources: list[tuple[float, Provenance]] = []

    def add(self, op: OpTime, times: float = 1.0) -> None:
        self.us = self.us + times * op.us
        self.inside = self.inside + times * op.us * op.within
        self.sources.append((float(np.mean(times * op.us)), op.provenance))

    def part(self) -> Part:
        total = sum(us for us, _ in self.sources)
        weighty = [p for us, p in self.sources if us > SIGNIFICANT_SHARE * total]
        provenance = Provenance.weakest(*weighty) if weighty else Provenance.DATASHEET
        within = np.asarray(self.inside >= (1.0 - SIGNIFICANT_SHARE) * self.us, dtype=np.float64)
        return Part(self.us / 1000.0, provenance, within)


class Components:
    """Component times of `model` with `operators`; results are cached per distinct argument set."""

    def __init__(self, model: ModelSpec, operators: OperatorSource) -> None:
        self.model = model
        self.operators = operators
        self._cache: dict[tuple[object, ...], Part] = {}

    # --- parts that depend on a rank's tokens ---

    def attn_linear(self, tp: int) -> Part:
        """Attention projections and norms over TOKENS."""
        key = ("attn_linear", tp)
        if key not in self._cache:
            total = _Sum(TOKENS.shape)
            for group in self.model.layers:
                if group.attention is None:
                    continue
                quant = self.model.quantization
                inputs, outputs = projections(group.attention, hidden=self.model.hidden, tp=tp)
                formats = [quant.of_projections(group.attention)] * len(inputs)
                formats += [quant.of_output(group.attention)] * len(outputs)
                for (n, k), fmt in zip(inputs + outputs, formats, strict=True):
                    total.add(self.operators.gemm(fmt, n=n, k=k, m=TOKENS), group.count)
                total.add(self._elementwise(), group.count)
            self._cache[key] = total.part()
        return self._cache[key]

    def dense_mlp(self, tp: int) -> Part:
        """Dense MLP layers, MLPs beside the experts and LatentMoE projections over TOKENS."""
        key = ("dense_mlp", tp)
        if key not in self._cache:
            total = _Sum(TOKENS.shape)
            fmt = self.model.quantization.dense_mlp
            for group in self.model.layers:
                if isinstance(group.mlp, DenseMlp):
                    self._mlp(total, fmt, group.mlp.intermediate, group.mlp.matrices, tp, group.count)
                elif isinstance(group.mlp, MoeMlp):
                    if group.mlp.dense_intermediate:
                        self._mlp(total, fmt, group.mlp.dense_intermediate, 3, tp, group.count)
                    if group.mlp.latent_projection_parameters:
                        n = int(group.mlp.latent_projection_parameters / self.model.hidden)
                        total.add(self.operators.gemm(fmt, n=n, k=self.model.hidden, m=TOKENS), group.count)
            self._cache[key] = total.part()
        return self._cache[key]

    def shared(self, tp: int) -> Part:
        """Shared experts, router gate and norms of the MoE layers over TOKENS."""
        key = ("shared", tp)
        if key not in self._cache:
            total = _Sum(TOKENS.shape)
            for group in self.model.layers:
                moe = group.mlp
                if not isinstance(moe, MoeMlp):
                    continue
                if moe.shared_intermediate:
                    fmt = self.model.quantization.shared_experts
                    self._mlp(total, fmt, moe.shared_intermediate, moe.shared_matrices, tp, group.count)
                else:
                    total.add(self._elementwise(), group.count)
                gate = self.operators.gemm(
                    WeightFormat.BF16, n=moe.experts + moe.identity_experts, k=self.model.hidden, m=TOKENS
                )
                total.add(gate, group.count)
            self._cache[key] = total.part()
        return self._cache[key]

    def experts(
        self, p: Parallelism, *, redundant: int, phase: Phase, eplb: bool, cv: float | None = None
    ) -> Part:
        """Routed experts of the hottest rank over TOKENS (mean tokens per DP rank of the group)."""
        key = ("experts", p.tp, p.dp, p.expert_parallel, redundant, phase, eplb, cv)
        if key not in self._cache:
            total = _Sum(TOKENS.shape)
            for group in self.model.layers:
                moe = group.mlp
                if not isinstance(moe, MoeMlp):
                    continue
                group_slots = TOKENS * p.dp * moe.routed_top_k
                physical = moe.experts + redundant
                slots = group_slots / p.ep
                heat = hottest_rank_factor(
                    slots=slots,
                    ep=p.ep,
                    experts_local=physical / p.ep,
                    phase=phase,
                    eplb=eplb,
                    popularity_cv=cv,
                )
                shape = ExpertShape(
                    fmt=self.model.quantization.experts,
                    hidden=moe.hidden,
                    intermediate=max(moe.intermediate // p.moe_tp, 1),
                    matrices=moe.matrices,
                    experts_local=max(-(-physical // p.ep), 1),
                    experts_total=moe.experts,
                    top_k=moe.routed_top_k,
                )
                total.add(self.operators.experts(shape, slots=slots * heat), group.count)
            self._cache[key] = total.part()
        return self._cache[key]

    def exchange(
        self,
        p: Parallelism,
        backend: All2AllBackend,
        ranks_per_domain: int,
        *,
        combine: bool,
        hot: float = 1.0,
    ) -> Part:
        """MoE dispatch (or combine) over TOKENS; zero when the group has one DP rank.

        `hot`: load of the rank with the most popular experts over the mean; its link carries that much more.
        """
        key = ("exchange", p.tp, p.dp, p.expert_parallel, backend, ranks_per_domain, combine, hot)
        if key not in self._cache:
            total = _Sum(TOKENS.shape)
            if p.dp > 1:
                for group in self.model.layers:
                    if isinstance(group.mlp, MoeMlp):
                        total.add(
                            self._exchange(p, group.mlp, backend, ranks_per_domain, combine, hot), group.count
                        )
            self._cache[key] = total.part()
        return self._cache[key]

    def _exchange(
        self,
        p: Parallelism,
        moe: MoeMlp,
        backend: All2AllBackend,
        ranks_per_domain: int,
        combine: bool,
        hot: float,
    ) -> OpTime:
        gpus = p.tp * p.dp
        if p.expert_parallel:
            shape = ExchangeShape(
                ep=gpus,
                ranks_per_domain=min(ranks_per_domain, gpus),
                hidden=moe.hidden,
                top_k=moe.routed_top_k,
                experts_total=moe.experts,
                fmt=self.model.quantization.experts,
            )
            query = self.operators.combine if combine else self.operators.dispatch
            return query(backend, shape, tokens=TOKENS / p.tp * hot)
        # experts sharded over the whole group: gather every rank's tokens, reduce-scatter the results
        return self.operators.collective(
            Collective.REDUCE_SCATTER if combine else Collective.ALL_GATHER,
            gpus=gpus,
            ranks_per_domain=min(ranks_per_domain, gpus),
            payload_bytes=TOKENS * p.dp * moe.hidden * BF16_BYTES,
            graph=True,
        )

    def collectives(self, p: Parallelism, ranks_per_domain: int, *, graph: bool) -> Part:
        """TP all-reduces after attention, dense MLP and (without DP) experts, and DCP exchanges, over TOKENS."""
        key = ("collectives", p.tp, p.dp == 1, p.dcp, graph, ranks_per_domain)
        if key not in self._cache:
            total = _Sum(TOKENS.shape)
            if p.tp > 1:
                reductions = sum(
                    g.count
                    * (
                        (g.attention is not None)
                        + (isinstance(g.mlp, DenseMlp) or (isinstance(g.mlp, MoeMlp) and p.dp == 1))
                    )
                    for g in self.model.layers
                )
                op = self.operators.collective(
                    Collective.ALL_REDUCE,
                    gpus=p.tp,
                    ranks_per_domain=min(ranks_per_domain, p.tp),
                    payload_bytes=TOKENS * self.model.hidden * BF16_BYTES,
                    graph=graph,
                )
                total.add(op, float(reductions))
                if p.dcp > 1:
                    self._context_parallel(total, p, ranks_per_domain, graph=graph)
            self._cache[key] = total.part()
        return self._cache[key]

    def _context_parallel(self, total: _Sum, p: Parallelism, ranks_per_domain: int, *, graph: bool) -> None:
        """Decode context parallel: gather the group's queries, then reduce-scatter the partial outputs, per layer."""
        for group in self.model.layers:
            a = group.attention
            if a is None or isinstance(a, LinearAttention):
                continue
            heads = a.heads / p.tp * p.dcp
            if isinstance(a, MlaAttention):
                query, output = a.kv_lora_rank + a.qk_rope_head_dim, a.kv_lora_rank
            else:
                query = output = a.head_dim
            for kind, width in ((Collective.ALL_GATHER, query), (Collective.REDUCE_SCATTER, output)):
                op = self.operators.collective(
                    kind,
                    gpus=p.dcp,
                    ranks_per_domain=min(ranks_per_domain, p.dcp),
                    payload_bytes=TOKENS * heads * width * BF16_BYTES,
                    graph=graph,
                )
                total.add(op, float(group.count))

    def head(self, tp: int) -> Part:
        """LM head GEMM, logits gather and sampling over TOKENS read as sampled sequences."""
        key = ("head", tp)
        if key not in self._cache:
            total = _Sum(TOKENS.shape)
            rows = -(-self.model.vocab // tp)
            fmt = self.model.quantization.lm_head or self.model.quantization.embedding
            total.add(self.operators.gemm(fmt, n=rows, k=self.model.hidden, m=TOKENS))
            total.add(self.operators.memory_pass(bytes_moved=TOKENS * self.model.vocab * 4.0 * 3.0))
            self._cache[key] = total.part()
        return self._cache[key]

    # --- attention ---

    def decode_attention(self, tp: int, dcp: int, kv: KvDtype, query_tokens: int) -> Part:
        """Core attention over BATCH x CONTEXT; `query_tokens` per sequence (1 + drafts)."""
        key = ("decode_attention", tp, dcp, kv, query_tokens)
        if key not in self._cache:
            batch = BATCH[:, None]
            context = CONTEXT[None, :] / dcp
            total = _Sum((len(BATCH), len(CONTEXT)))
            for group in self.model.layers:
                if group.attention is not None:
                    attention = _more_queries(group.attention, query_tokens)
                    op = self.operators.attention_decode(
                        attention, tp=tp, kv=kv, batch=batch, context=context
                    )
                    total.add(op, group.count)
            self._cache[key] = total.part()
        return self._cache[key]

    def prefill_attention(self, tp: int, kv: KvDtype) -> Part:
        """Core attention of one sequence's chunk over CHUNK x PREFIX, MLA latent expansion included."""
        key = ("prefill_attention", tp, kv)
        if key not in self._cache:
            chunk = CHUNK[:, None]
            prefix = PREFIX[None, :]
            total = _Sum((len(CHUNK), len(PREFIX)))
            for group in self.model.layers:
                a = group.attention
                if a is None:
                    continue
                op = self.operators.attention_prefill(a, tp=tp, kv=kv, new_tokens=chunk, prefix=prefix)
                total.add(op, group.count)
                if isinstance(a, MlaAttention):
                    rows = (a.heads // tp) * (a.qk_nope_head_dim + a.v_head_dim)
                    expand = self.operators.gemm(
                        self.model.quantization.attention, n=rows, k=a.kv_lora_rank, m=chunk + prefix
                    )
                    total.add(expand, group.count)
            self._cache[key] = total.part()
        return self._cache[key]

    # --- helpers ---

    def _elementwise(self) -> OpTime:
        return self.operators.memory_pass(
            bytes_moved=TOKENS * self.model.hidden * BF16_BYTES * ELEMENTWISE_PASSES
        )

    def _mlp(
        self, total: _Sum, fmt: WeightFormat, intermediate: int, matrices: int, tp: int, count: int
    ) -> None:
        width = max(intermediate // tp, 1)
        total.add(self.operators.gemm(fmt, n=width * (matrices - 1), k=self.model.hidden, m=TOKENS), count)
        total.add(self.operators.gemm(fmt, n=self.model.hidden, k=width, m=TOKENS), count)
        total.add(self._elementwise(), count)


Shapes = tuple[tuple[int, int], ...]


def projections(a: Attention, *, hidden: int, tp: int) -> tuple[Shapes, Shapes]:
    """(N, K) of one attention layer's input and output projection GEMMs on one TP rank.

    MLA's latent expansion is apart: prefill runs it per chunk, decode absorbs it.
    """
    if isinstance(a, GqaAttention):
        kv_heads = max(1, a.kv_heads // tp)
        kv_width = kv_heads * (a.head_dim + (0 if a.key_value_shared else a.value_dim))
        query = (a.heads // tp) * a.head_dim * (2 if a.gated else 1)
        return ((query + kv_width, hidden),), ((hidden, a.output_width // tp),)
    if isinstance(a, MlaAttention):
        heads = a.heads // tp
        down = (a.q_lora_rank or 0) + a.kv_lora_rank + a.qk_rope_head_dim
        query = heads * (a.qk_nope_head_dim + a.qk_rope_head_dim)
        inputs = [(down, hidden), (query, a.q_lora_rank or hidden)]
        if a.gated:
            inputs.append((heads * a.v_head_dim, hidden))
        if a.indexer is not None and a.indexer.owned:
            inputs.append((a.indexer.heads * a.indexer.head_dim, a.q_lora_rank or hidden))
            inputs.append((a.indexer.head_dim + a.indexer.heads, hidden))
        return tuple(inputs), ((hidden, heads * a.v_head_dim),)
    if isinstance(a, CompressedAttention):
        heads = a.heads // tp
        groups = max(a.o_groups // tp, 1)
        inputs = [(a.q_lora_rank + a.head_dim, hidden), (heads * a.head_dim, a.q_lora_rank)]
        if a.indexer is not None:
            inputs.append((a.indexer.heads * a.indexer.head_dim, a.q_lora_rank))
        outputs = ((groups * a.o_lora_rank, heads * a.head_dim // groups), (hidden, groups * a.o_lora_rank))
        return tuple(inputs), outputs
    into = max(int((a.parameters - a.output_width * hidden) / hidden / tp), 1)
    return ((into, hidden),), ((hidden, max(a.output_width // tp, 1)),)


def _more_queries(a: Attention, query_tokens: int) -> Attention:
    """Attention with `query_tokens` queries per sequence: same cache, that many times the query heads."""
    if query_tokens == 1 or isinstance(a, LinearAttention):
        return a
    return replace(a, heads=a.heads * query_tokens)
