"""The exact Pareto front of two objectives that are both maximised."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.perf.operators.base import FloatArray


def pareto_indexes(x: FloatArray, y: FloatArray) -> NDArray[np.intp]:
    """Indexes of the non-dominated points, by descending x; duplicates keep their first member.

    O(n log n): sort by x, then keep points whose y exceeds every y seen at a larger x.
    """
    if x.size == 0:
        return np.empty(0, dtype=np.intp)
    order = np.lexsort((-y, -x))
    best = np.maximum.accumulate(y[order])
    keep = np.empty(order.size, dtype=bool)
    keep[0] = True
    keep[1:] = y[order][1:] > best[:-1]
    result: NDArray[np.intp] = order[keep]
    return result


def undominated_rows(costs: FloatArray) -> NDArray[np.intp]:
    """Rows of `costs` ([n, k], lower is better in every column) that no other row beats or equals everywhere.

    Of identical rows the first stays. Exact, for pruning configurations that differ only in these quantities.
    """
    order = np.lexsort((np.arange(len(costs)), costs.sum(axis=1)))
    kept: list[int] = []
    for index in order:
        row = costs[index]
        if kept and bool(np.any(np.all(costs[kept] <= row, axis=1))):
            continue
        kept.append(int(index))
    return np.array(sorted(kept), dtype=np.intp)
