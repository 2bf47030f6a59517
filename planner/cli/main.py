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
from planner.cli.sections import COMMANDS, SectionedGroup
from planner.domain.errors import ExitCode, InputError, Issue, PlannerError, did_you_mean

__all__ = ["COMMANDS", "build_app", "main"]


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
