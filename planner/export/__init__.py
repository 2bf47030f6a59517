"""Kubernetes objects from a deployment plan; the only YAML emitter."""

from planner.export.objects import Manifest
from planner.export.options import ExportOptions, RoleHardware, Target
from planner.export.render import render

__all__ = ["ExportOptions", "Manifest", "RoleHardware", "Target", "render"]
