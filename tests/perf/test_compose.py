"""How the parts of a step add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.perf.compose import overlapped_gpu_ms, plain_gpu_ms, step_ms

ms = st.floats(0.0, 50.0)
parts = st.fixed_dictionaries(
    dict.fromkeys(
        (
            "attention",
            "attn_linear",
            "dense_mlp",
            "shared",
            "experts",
            "dispatch",
            "combine",
            "collectives",
            "head",
        ),
        ms,
    )
)


@given(parts, st.floats(0.0, 1.0))
def test_overlap_never_beats_the_longer_of_compute_and_communication(values, share) -> None:
    """Two half-batches: compute runs twice, communication runs twice, and neither disappears."""
    half = overlapped_gpu_ms(**values, moe_layer_share=share, sync=0.0)
    inside = (values["attention"] + values["attn_linear"] + values["collectives"]) * share
    compute = 2.0 * (inside + values["experts"] + values["shared"])
    communication = 2.0 * (values["dispatch"] + values["combine"])
    outside = 2.0 * (
        (values["attention"] + values["attn_linear"] + values["collectives"]) * (1.0 - share)
        + values["dense_mlp"]
    )
    assert half >= outside + max(compute, communication) + values["head"] - 1e-9
    assert half <= outside + compute + communication + values["head"] + 1e-9


@given(parts)
def test_free_communication_leaves_nothing_to_hide(values) -> None:
    """With no communication, two half-batches cost exactly their compute, twice."""
    quiet = {**values, "dispatch": 0.0, "combine": 0.0}
    head = quiet.pop("head")
    both = overlapped_gpu_ms(**quiet, head=head, moe_layer_share=1.0, sync=0.0)
    once = plain_gpu_ms(**quiet, head=0.0)
    assert both == pytest.approx(2.0 * once + head)


@given(parts)
def test_arrays_and_scalars_agree(values) -> None:
    as_arrays = {k: np.array([v, 2.0 * v]) for k, v in values.items()}
    for function, extra in ((plain_gpu_ms, {}), (overlapped_gpu_ms, {"moe_layer_share": 0.9, "sync": 0.1})):
        one = function(**values, **extra)
        many = function(**as_arrays, **extra)
        assert many[0] == pytest.approx(one)


def test_host_work_hides_only_under_asynchronous_scheduling() -> None:
    assert step_ms(10.0, 3.0, True) == 10.0
    assert step_ms(2.0, 3.0, True) == 3.0
    assert step_ms(10.0, 3.0, False) == 13.0
