"""Fixtures of the operator tests."""

from __future__ import annotations

import pytest

from planner.domain.hardware import GpuProfile
from tests.operators.parts import GPUS


@pytest.fixture(params=sorted(GPUS))
def gpu(request: pytest.FixtureRequest) -> GpuProfile:
    """Each test GPU in turn."""
    return GPUS[request.param]
