from __future__ import annotations

import sys
from pathlib import Path

import pytest

from planner.export.schema import SchemaSet, load_schemas

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def crds() -> SchemaSet:
    """Schemas of LeaderWorkerSet, DisaggregatedSet, InferencePool and HTTPRoute; skips where they are not at hand."""
    from export_builders import CRDS

    folder = CRDS
    if not folder.is_dir():
        pytest.skip("needs the CRD schemas in ../shared/crds")
    return load_schemas(folder)
