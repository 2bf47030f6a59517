"""Export formats: each target turns a prepared plan into files. A new one is a module here and a line in TARGETS."""

from planner.export.targets.base import Export, ExportFile, TargetWriter
from planner.export.targets.registry import TARGETS, export_plan

__all__ = ["TARGETS", "Export", "ExportFile", "TargetWriter", "export_plan"]
