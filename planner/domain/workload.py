"""What is asked of the deployment: traffic and service levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Cached prompts need room for more than one of each conversation: ranks hold unequal shares and conversations differ in
# length (simulated: hits fall from 0.7 to 0.3 of the prompt between 1.3 and 1.0)
CACHE_ROOM: Final = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Mean request shape. Tokens are per request.

    `prefix_hit` is the fraction of prompt tokens found in the prefix cache (0 = no reuse). `prefix_shared`: whether all
    requests begin alike (a system prompt, kept once per rank) or every conversation repeats its own.
    `length_cv` is the coefficient of variation of prompt and output lengths (0 = fixed).
    """

    isl: int
    osl: int
    prefix_hit: float = 0.0
    prefix_shared: bool = False
    length_cv: float = 0.0

    @property
    def context_at_end(self) -> int:
        """Tokens held by a request when it finishes."""
        return self.isl + self.osl

    @property
    def new_tokens(self) -> float:
        """Prompt tokens that must be computed, as they are not in the cache."""
        return self.isl * (1.0 - self.prefix_hit)

    @property
    def kept_tokens(self) -> int:
        """Tokens prefill engines must keep per conversation for its next prompt to hit; 0 when nothing is its own."""
        own = self.prefix_hit > 0.0 and not self.prefix_shared
        return round(CACHE_ROOM * self.isl) if own else 0

    @property
    def mean_context(self) -> float:
        """Mean tokens in the KV cache over a request's decode steps."""
        return self.isl + self.osl / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SloTargets:
    """Service levels on the median; None means no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    tok_s_user: float | None = None

    @property
    def tpot_limit_ms(self) -> float | None:
        """The tighter of the TPOT target and the TPOT that the per-user rate implies."""
        limits = [
            x for x in (self.tpot_ms, 1000.0 / self.tok_s_user if self.tok_s_user else None) if x is not None
        ]
        return min(limits) if limits else None
