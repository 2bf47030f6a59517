from __future__ import annotations

import sys
from pathlib import Path

import pytest

from planner.export.schema import SchemaSet, load_schemas

sys.path.insert(0, str(Path(__file__).parent))
SHARED = Path(__file__).parents[2].parent / "shared"


@pytest.fixture(scope="session")
def crds() -> SchemaSet:
    """Schemas of LeaderWorkerSet, DisaggregatedSet, InferencePool and HTTPRoute; skips where they are not at hand."""
    folder = SHARED / "crds"
    if not folder.is_dir():
        pytest.skip("needs the CRD schemas in ../shared/crds")
    return load_schemas(folder)
