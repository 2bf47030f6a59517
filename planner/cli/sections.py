"""The commands by what a user wants to do; ``planner --help`` lists them so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typer.core import TyperGroup

# section -> name -> (module, attribute, one-line help); a module is imported when its command runs or shows its own help
SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str, str]]]] = {
    "Start here": {
        "demo": ("planner.cli.demo", "app", "The whole product on shipped data, offline."),
        "doctor": (
            "planner.cli.doctor",
            "doctor",
            "Check this machine, the database, the cluster and the data.",
        ),
        "completion": (
            "planner.cli.completion",
            "completion",
            "Print a completion script for bash, zsh or fish.",
        ),
    },
    "Plan": {
        "recommend": (
            "planner.cli.recommend",
            "recommend",
            "Find the deployments worth running, and pick one.",
        ),
        "size": ("planner.cli.size", "size", "How many GPUs a load needs, per GPU type, with cost."),
        "estimate": ("planner.cli.estimate", "estimate", "Price one configuration, with intervals."),
        "why-not": (
            "planner.cli.why_not",
            "why_not",
            "Say why a configuration is not legal or not on the frontier.",
        ),
        "encoder": (
            "planner.cli.encoder",
            "encoder",
            "Say whether a vision encoder deserves GPUs of its own.",
        ),
    },
    "Try": {
        "simulate": (
            "planner.cli.simulate",
            "simulate",
            "Simulate a plan: routers, caches, queues, lockstep ranks.",
        ),
        "compare": (
            "planner.cli.compare",
            "compare",
            "Compare plans or routers under common random numbers.",
        ),
        "experiments": (
            "planner.cli.experiments",
            "app",
            "The laws of the field as experiments with verdicts.",
        ),
        "search": ("planner.cli.search", "search", "Search over simulations or measurements, and remember."),
        "studies": ("planner.cli.studies", "app", "List, show, resume, compare, export and delete searches."),
    },
    "Deploy": {
        "export": ("planner.cli.export", "export", "Write a saved plan as manifests for kubectl."),
        "lint": ("planner.cli.lint", "lint", "Check manifests against known causes of failure."),
        "import": ("planner.cli.import_", "import_", "Read an existing deployment back into a plan."),
        "diff": ("planner.cli.diff", "diff", "Compare a plan with what runs, by server-side dry-run."),
        "apply": ("planner.cli.apply", "apply", "Apply a plan after showing what changes; never deletes."),
    },
    "Watch": {
        "cluster": ("planner.cli.cluster", "app", "Live state: roles, ranks, rollout blockers, recordings."),
        "tui": ("planner.cli.tui", "tui", "Explore, compare and export plans in the terminal."),
        "serve": ("planner.cli.serve", "serve", "The browser console."),
    },
    "Measure": {
        "campaign": (
            "planner.cli.campaign",
            "app",
            "Choose, run and import the benchmarks worth running next.",
        ),
        "measurements": ("planner.cli.measurements", "app", "Import, list and export benchmark results."),
        "calibrate": ("planner.cli.calibrate", "calibrate", "Fit the model to your own measurements."),
        "validate": ("planner.cli.validate", "validate", "Compare predictions with measured points."),
    },
    "Look up": {
        "recipes": ("planner.cli.recipes", "app", "Named, tested inputs."),
        "models": ("planner.cli.models", "app", "Checkpoints: structure, sizes, KV bytes per token."),
        "profiles": ("planner.cli.profiles", "app", "GPUs, fabrics, node shapes and engines, with sources."),
        "explain": ("planner.cli.explain", "explain", "Explain an error code, a rule or a term, offline."),
        "schemas": (
            "planner.cli.schemas",
            "app",
            "JSON Schemas of the documents that are printed and saved.",
        ),
    },
}
COMMANDS: Final = {name: command for section in SECTIONS.values() for name, command in section.items()}


class SectionedGroup(TyperGroup):
    """A command group whose help has one list per section."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the base class names it
        """Write every section under its own heading, all in one column width."""
        width = max(len(name) for name in self.commands)
        for title, names in SECTIONS.items():
            limit = formatter.width - 6 - width
            rows = [(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)
