"""`planner completion`: the script that teaches a shell to complete commands, options and catalogue names."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from planner.cli.completing import VARIABLE

PROGRAMS = ("planner", "wideplan")


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print a completion script.

    bash: add  eval "$(planner completion bash)"  to ~/.bashrc.

    zsh: add  eval "$(planner completion zsh)"  to ~/.zshrc, after compinit.

    fish: planner completion fish > ~/.config/fish/completions/planner.fish
    """
    from typer._completion_shared import (
        get_completion_script,
    )  # what --show-completion prints; it has no public name

    for program in PROGRAMS:
        script = get_completion_script(prog_name=program, complete_var=VARIABLE, shell=shell.value)
        sys.stdout.write(script + "\n")
