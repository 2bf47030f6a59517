"""Widths of engine groups in measured rows, whatever convention the source used for ``tp``.

InferenceX records the worker size as TP when attention is data parallel; some launchers record ``tp=1, ep=1`` labels
and only the GPU totals tell the size. Every reading of the columns is tried; the one that adds up to the stated GPUs
wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """`groups` engine groups of `tp` x `dp` GPUs; `ep` as recorded (1 = experts sharded over the group)."""

    groups: int
    tp: int
    dp: int
    ep: int

    @property
    def group_gpus(self) -> int:
        """GPUs of one group."""
        return self.tp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs of the role."""
        return self.groups * self.group_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWidths:
    """Widths of both roles (the single pool of an aggregated row is `decode`) and all GPUs."""

    prefill: Widths | None
    decode: Widths | None

    @property
    def total(self) -> int:
        """GPUs of all roles."""
        return sum(w.gpus for w in (self.prefill, self.decode) if w is not None)


def resolve_widths(row: Mapping[str, str], mode: str) -> RowWidths | None:
    """Widths of a row, or None when they cannot be told."""
    total = _integer(row.get("total_gpus", ""))
    stated = {
        side: _integer(found[1])
        for side in ("prefill", "decode")
        if (found := re.search(rf"{side}_gpus=(\d+)", row.get("notes", "")))
    }
    if mode == "prefill_only":
        options = _readings(row, "prefill", total)
        return RowWidths(prefill=options[0], decode=None) if options else None
    if mode != "disagg":
        options = _readings(row, "decode", total)
        chosen = next((o for o in options if o.gpus == total), options[0] if options else None)
        return RowWidths(prefill=None, decode=chosen) if chosen is not None else None
    prefill = _readings(row, "prefill", stated.get("prefill"))
    decode = _readings(row, "decode", stated.get("decode"))
    if not decode:
        return None
    pairs = [RowWidths(prefill=p, decode=d) for p, d in product(prefill, decode)]
    if total is None:
        return pairs[0] if pairs else None
    exact = next((p for p in pairs if p.total == total), None)
    if exact is not None:
        return exact
    return _fill_prefill(row, decode, total)


def _fill_prefill(row: Mapping[str, str], decode: list[Widths], total: int) -> RowWidths | None:
    """Prefill columns that do not add up or are blank: what is left of the total, spread over the workers."""
    groups = _integer(row.get("prefill_workers", "")) or 1
    dp = _integer(row.get("prefill_dp", "")) or 1
    ep = _integer(row.get("prefill_ep", "")) or 1
    for side in decode:
        left = total - side.gpus
        if left > 0 and left % groups == 0:
            worker = left // groups
            dp_fits = dp if worker % dp == 0 else 1
            return RowWidths(
                prefill=Widths(groups=groups, tp=worker // dp_fits, dp=dp_fits, ep=min(ep, worker)),
                decode=side,
            )
    return None


def _readings(row: Mapping[str, str], side: str, gpus: int | None) -> list[Widths]:
    """Ways to read one side's columns, the plainest first."""
    tp, dp, ep = (_integer(row.get(f"{side}_{x}", "")) for x in ("tp", "dp", "ep"))
    groups = _integer(row.get(f"{side}_workers", "")) or 1
    if tp is None and dp is None:
        if gpus is not None and gpus % groups == 0:  # only a GPU count: one plain TP group of a node
            return [Widths(groups=groups, tp=gpus // groups, dp=1, ep=ep or 1)]
        return []
    tp, dp = tp or 1, dp or 1
    found = [Widths(groups=groups, tp=tp, dp=dp, ep=ep or 1)]
    if dp > 1 and tp % dp == 0:  # tp is the worker size
        found.insert(0 if tp == dp else 1, Widths(groups=groups, tp=tp // dp, dp=dp, ep=ep or 1))
    elif dp == 1 and tp == 1 and gpus is not None and gpus % groups == 0 and gpus // groups > 1:
        found.append(Widths(groups=groups, tp=gpus // groups, dp=1, ep=ep or 1))
    if dp > 1:  # attention DP over every GPU of the worker, whatever `tp` says
        found.append(Widths(groups=groups, tp=1, dp=dp, ep=ep or 1))
    if gpus is not None:
        found.sort(key=lambda w: w.gpus != gpus)  # stable: readings that add up come first
    return found


def _integer(text: str) -> int | None:
    try:
        value = int(float(text))
    except ValueError:
        return None
    return value if value > 0 else None
