"""Manifests as people write them, with faults from public reports: all of them are found."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from planner.export.files import read_manifests
from planner.export.lint import Severity, lint_documents
from planner.search.manifest_facts import CatalogueFacts

FOLDER = Path(__file__).parent / "handwritten"
EXPECTED = {
    "helm_style_pd.yaml": {
        "L01",  # no shared memory volume
        "L04",  # prefill drops idle connections
        "L05",  # --connector was removed
        "L16",  # default strategy surges
        "L19",  # no RDMA, no IPC_LOCK
        "L21",
        "L24",  # readiness on /v1/models
        "L28",  # separate objects
        "S01",  # 2 GPUs for tp2 x dp4
        "S04",  # no connector
        "S06",  # two images
        "S07",
        "S10",  # :latest
    },
    "wide_ep_lws.yaml": {
        "L01",
        "L02",  # eight ports, one listener
        "L13",  # DBO with the default backend: the variable is gone
        "L15",
        "L16",
        "L17",  # 52 characters
        "L21",
        "L24",  # no readiness probe
        "L25",  # two minutes for 640 GB
        "L27",  # FailClosed, no port
        "L31",
        "S07",
        "S09",
    },
    "disaggregated_set.yaml": {
        "L01",
        "L04",
        "L09",  # prefill tp8 > decode tp4, GQA
        "L16",
        "L21",
        "S04",  # kv_both
        "S05",  # side channel on localhost
        "S06",  # two versions
        "S07",  # 512 sequences, 256 tokens
        "W05",  # slices beside external scaling
    },
    "router.values.yaml": {"L06"},
    "glm_eplb.yaml": {
        "L14",  # (256 + 10) % 16
        "L15",
        "L18",
        "L21",
        "L25",
        "S02",  # every pod starts at rank 0
        "S03",  # supervisor on rank 4's port
        "S08",  # queue depth
        "W03",
    },
}


@pytest.mark.parametrize("name", EXPECTED)
def test_planted_faults_are_found(name: str) -> None:
    documents = read_manifests([str(FOLDER / name)], stdin=io.StringIO())
    found = lint_documents(documents, facts=CatalogueFacts())
    ids = {f.rule.id for f in found}
    missing = EXPECTED[name] - ids
    assert not missing, missing


def test_router_values_carry_each_of_their_faults() -> None:
    documents = read_manifests([str(FOLDER / "router.values.yaml")], stdin=io.StringIO())
    texts = [f.what for f in lint_documents(documents) if f.rule.id == "L06"]
    for part in (
        "apiVersion inference.networking.x-k8s.io/v1alpha1",
        "gate 'dataLayer'",
        "'disagg-headers-handler'",
        "'deciderPluginName'",
        "'blockSize'",
        "'decode-filter', which is not defined",
    ):
        assert any(part in t for t in texts), part


def test_errors_come_with_their_file_and_line() -> None:
    documents = read_manifests([str(FOLDER)], stdin=io.StringIO())
    errors = [f for f in lint_documents(documents, facts=CatalogueFacts()) if f.severity is Severity.ERROR]
    assert {Path(f.source).name for f in errors} == set(EXPECTED)
    assert all(f.line >= 1 for f in errors)
