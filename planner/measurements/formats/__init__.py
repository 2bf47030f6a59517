"""Importers, one module per benchmark format. To add one: write the module, then add it to `IMPORTERS`."""

from __future__ import annotations

from typing import Final, Protocol

from planner.domain.measurement import BenchmarkFormat
from planner.measurements.documents import Document
from planner.measurements.draft import Draft
from planner.measurements.formats.aiperf import AiperfImporter
from planner.measurements.formats.guidellm import GuidellmImporter
from planner.measurements.formats.inference_perf import InferencePerfImporter
from planner.measurements.formats.inferencex import InferenceXImporter
from planner.measurements.formats.llm_d_report import LlmDReportImporter
from planner.measurements.formats.vllm_bench import VllmBenchImporter, VllmSweepImporter
from planner.measurements.formats.wideplan_csv import WideplanCsvImporter


class Importer(Protocol):
    """Reads one format. `matches` looks at content only and must not raise."""

    format: BenchmarkFormat

    def matches(self, document: Document) -> bool:
        """Whether the document is of this format."""
        ...

    def read(self, document: Document) -> tuple[Draft, ...]:
        """Every run of the document, in file order."""
        ...


IMPORTERS: Final[tuple[Importer, ...]] = (
    VllmSweepImporter(),
    VllmBenchImporter(),
    GuidellmImporter(),
    AiperfImporter(),
    InferencePerfImporter(),
    LlmDReportImporter(),
    InferenceXImporter(),
    WideplanCsvImporter(),
)


def detect(document: Document) -> Importer | None:
    """The importer for a document, or None when no format is recognised."""
    return next((i for i in IMPORTERS if i.matches(document)), None)
