"""Entry point of `planner` and `wideplan`. Commands are loaded on use, so that ``--help`` stays instant."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import typer

from planner import __version__
from planner.cli.completing import VARIABLE as COMPLETE_VARIABLE
from planner.cli.completing import words_typed
from planner.cli.output import print_error
from planner.cli.sections import SectionedGroup
from planner.domain.errors import ExitCode, InputError, Issue, PlannerError, did_you_mean

# name -> (module, attribute, one-line help); modules are imported only when the command runs or shows its own help
COMMANDS: dict[str, tuple[str, str, str]] = {
    "recommend": (
        "planner.cli.recommend",
        "recommend",
        "Find the deployments worth running, and pick one.",
    ),
    "size": ("planner.cli.size", "size", "How many GPUs a load needs, per GPU type, with cost."),
    "estimate": (
        "planner.cli.estimate",
        "estimate",
        "Price one configuration, with intervals.",
    ),
    "why-not": (
        "planner.cli.why_not",
        "why_not",
        "Say why a configuration is not legal or not on the frontier.",
    ),
    "export": ("planner.cli.export", "export", "Write a saved plan as manifests for kubectl."),
    "lint": ("planner.cli.lint", "lint", "Check manifests against known causes of failure."),
    "import": ("planner.cli.import_", "import_", "Read an existing deployment back into a plan."),
    "tui": ("planner.cli.tui", "tui", "Explore, compare and export plans in the terminal."),
    "demo": ("planner.cli.demo", "app", "The whole product on shipped data, offline."),
    "doctor": ("planner.cli.doctor", "doctor", "Check this machine, the database, the cluster and the data."),
    "schemas": ("planner.cli.schemas", "app", "JSON Schemas of the documents that are printed and saved."),
    "completion": (
        "planner.cli.completion",
        "completion",
        "Print a completion script for bash, zsh or fish.",
    ),
    "recipes": ("planner.cli.recipes", "app", "Named, tested inputs."),
    "profiles": ("planner.cli.profiles", "app", "GPUs, fabrics, node shapes and engines, with sources."),
    "models": ("planner.cli.models", "app", "Checkpoints: structure, sizes, KV bytes per token."),
    "validate": ("planner.cli.validate", "validate", "Compare predictions with measured points."),
    "simulate": (
        "planner.cli.simulate",
        "simulate",
        "Simulate a plan: routers, caches, queues, lockstep ranks.",
    ),
    "encoder": (
        "planner.cli.encoder",
        "encoder",
        "Say whether a vision encoder deserves GPUs of its own.",
    ),
    "compare": ("planner.cli.compare", "compare", "Compare plans or routers under common random numbers."),
    "experiments": ("planner.cli.experiments", "app", "The laws of the field as experiments with verdicts."),
    "search": ("planner.cli.search", "search", "Search over simulations or measurements, and remember."),
    "studies": ("planner.cli.studies", "app", "List, show, resume, compare, export and delete searches."),
    "campaign": ("planner.cli.campaign", "app", "Choose, run and import the benchmarks worth running next."),
    "cluster": ("planner.cli.cluster", "app", "Live state: roles, ranks, rollout blockers, recordings."),
    "diff": ("planner.cli.diff", "diff", "Compare a plan with what runs, by server-side dry-run."),
    "serve": ("planner.cli.serve", "serve", "The browser console."),
    "apply": ("planner.cli.apply", "apply", "Apply a plan after showing what changes; never deletes."),
    "measurements": ("planner.cli.measurements", "app", "Import, list and export benchmark results."),
    "calibrate": ("planner.cli.calibrate", "calibrate", "Fit the model to your own measurements."),
    "explain": ("planner.cli.explain", "explain", "Explain an error code, a rule or a term, offline."),
}


def build_app(wanted: str | None = None) -> typer.Typer:
    """The command tree with `wanted` loaded for real and every other command as name and help only."""
    app = typer.Typer(
        name="planner",
        cls=SectionedGroup,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_root)
    for name, (module, attribute, help_text) in COMMANDS.items():
        if name != wanted:
            app.command(name, help=help_text)(_placeholder)
            continue
        target: Any = getattr(importlib.import_module(module), attribute)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name, help=help_text, rich_help_panel=None)
        else:
            app.command(name)(target)
    return app


def _placeholder() -> None:
    """Never runs: `main` loads the command that is asked for."""


def _show_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"wideplan {__version__}\n")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Plan and tune disaggregated MoE inference on llm-d and vLLM."""
    del version


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a PlannerError becomes a message and its exit code."""
    args = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None:  # started with stdout closed: there is no one to read the result
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives on
    typed = words_typed()
    if typed is not None:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()  # makes the shells known, which add_completion would do
    wanted = next((a for a in (args if typed is None else typed) if not a.startswith("-")), None)
    try:
        if wanted is not None and wanted not in COMMANDS and typed is None:
            raise InputError(
                Issue(
                    code="command.unknown",
                    what=f"'{wanted}' is not a command",
                    why="the first word names what to do",
                    fix=f"{did_you_mean(wanted, COMMANDS)} See planner --help",
                )
            )
        build_app(wanted)(args=args, prog_name="planner", complete_var=COMPLETE_VARIABLE)
    except PlannerError as error:
        print_error(error)
        sys.exit(int(error.exit_code))
    except SystemExit:
        # click ends with status 1 when the reader of a pipe left, and leaves this wrapper behind
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            sys.exit(int(ExitCode.OK))
        raise
    except BrokenPipeError:
        # the reader of a pipe left (``planner export … | head``): not an error of ours
        sys.stderr.close()
        sys.exit(int(ExitCode.OK))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        print_error(
            InputError(
                Issue(
                    code="output.failed",
                    what="the result could not be written",
                    why=error.strerror or str(error),
                    fix="free some space, or send the output somewhere else",
                )
            )
        )
        _drop_output()
        sys.exit(int(ExitCode.USAGE))


def _drop_output() -> None:
    """Point stdout at nothing, so that what is still buffered does not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
