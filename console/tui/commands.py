"""The words of the ``:`` prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A word with its aliases; `argument` names what may follow."""

    name: str
    help: str
    aliases: tuple[str, ...] = ()
    argument: str = ""


COMMANDS: Final = (
    Command(name="frontier", help="plot and ranked plans", aliases=("f", "fr")),
    Command(name="problem", help="edit model, hardware, workload and targets", aliases=("p", "pr")),
    Command(name="simulation", help="run plans under routers and workloads", aliases=("sim",)),
    Command(name="cluster", help="what runs now, per DP rank", aliases=("cl",)),
    Command(name="studies", help="searches: open, compare, start, pause", aliases=("st",)),
    Command(name="study", help="open a study on the frontier", argument="NAME"),
    Command(name="measurements", help="benchmark results: import, compare", aliases=("me",)),
    Command(name="context", help="follow another cluster", aliases=("ctx",), argument="NAME"),
    Command(name="namespace", help="follow another namespace; empty: all", aliases=("ns",), argument="NAME"),
    Command(name="replay", help="show a recording of a cluster", argument="FILE"),
    Command(name="recipe", help="open a recipe", aliases=("r", "open"), argument="NAME"),
    Command(name="theme", help="change colours", argument="NAME"),
    Command(name="jump", help="a letter on every widget"),
    Command(name="keys", help="every action with its id and keys"),
    Command(name="help", help="help on the focused widget", aliases=("h", "?")),
    Command(name="quit", help="leave", aliases=("q", "exit")),
)


def find(word: str) -> Command | None:
    """The command called `word`, by name or alias."""
    return next((c for c in COMMANDS if word == c.name or word in c.aliases), None)
