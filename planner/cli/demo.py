"""`planner demo`: the whole product on shipped data. Offline; the user's own records are not touched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.cluster import demo as cluster_demo
from planner.domain.errors import InputError, Issue

if TYPE_CHECKING:
    from console.cluster.open import Opening
    from console.views.cluster import ClusterOverview
    from planner.cli.demo_data import Unpacked

PLAY_SPEED = 10.0  # the fault shows after a few seconds

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    web: Annotated[
        bool, typer.Option("--web", help="The browser console instead of the terminal app.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--print", help="Text on stdout: recommendation, study, cluster, fault.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the console on 127.0.0.1; 0 = any.")
    ] = 0,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="With --web: open the page in your browser.")
    ] = False,
    theme: Annotated[
        str | None, typer.Option("--theme", help="wideplan-dark, wideplan-light, high-contrast or no-colour.")
    ] = None,
) -> None:
    """A recipe, a finished study of it, and a recorded cluster of 32 GPUs with a fault to find.

    Opens the terminal app. Needs no GPU, no cluster and no network; keeps nothing.
    """
    if context.invoked_subcommand is not None:
        return
    if web and show:
        raise InputError(
            Issue(
                code="demo.one",
                what="--web together with --print",
                why="one prints and ends, the other serves until it is stopped",
                fix="choose one of them",
            )
        )
    if theme is not None and (web or show):
        raise InputError(
            Issue(
                code="demo.theme",
                what=f"--theme {theme} with {'--web' if web else '--print'}",
                why="it is a theme of the terminal app",
                fix="leave it out; the browser console has its own switch",
                where="--theme",
            )
        )
    if not web and not show and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(
            Issue(
                code="tui.no-terminal",
                what="planner demo without a terminal",
                why="input or output is a file or a pipe",
                fix="planner demo --print shows the same as text; --web opens the browser console",
            )
        )
    from planner.cli.demo_data import unpacked

    with unpacked() as made:
        if show:
            _print(made)
        elif web:
            _web(made, port=port, open_browser=open_browser)
        else:
            status = _terminal(made, theme=theme)
            if status:
                raise typer.Exit(status)


app.command("cluster")(cluster_demo)


def _terminal(made: Unpacked, *, theme: str | None) -> int:
    from console.tui.run import run
    from console.tui.services import ClusterChoice
    from planner.cli.demo_data import RECIPE
    from planner.search.ask import Request

    choice = ClusterChoice(replay=made.recording, speed=PLAY_SPEED)
    return run(Request(), recipe=RECIPE, theme=theme, config=None, cluster=choice)


def _web(made: Unpacked, *, port: int, open_browser: bool) -> None:
    from console.api.serve import Serving, run
    from console.cluster.open import Opening
    from planner.cli.demo_data import RECIPE

    run(
        Serving(
            host="127.0.0.1",
            port=port,
            recipe=RECIPE,
            allowed=(),
            profiles=None,
            behind_tls=False,
            open_browser=open_browser,
            cluster=Opening(replay=made.recording, speed=PLAY_SPEED),
            in_cluster=False,
        ),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )


def _print(made: Unpacked) -> None:
    _heading("1. The question and its answer (planner recommend)")
    _recommendation()
    _heading("2. The same question searched by simulation (planner search; planner studies show)")
    _study()
    _heading("3. A recorded cluster of 32 GPUs with this model (planner cluster status --replay)")
    _cluster(made.recording)


def _heading(text: str) -> None:
    sys.stdout.write(f"\n{text}\n{'=' * len(text)}\n")
    sys.stdout.flush()


def _recommendation() -> None:
    from planner.cli.demo_data import RECIPE
    from planner.cli.render_recommendation import print_recommendation
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe
    from planner.search.recommend import recommend

    print_recommendation(recommend(*build_problem(with_recipe(RECIPE, Request()))), saved=None)


def _study() -> None:
    from planner.cli.demo_data import STUDY
    from planner.cli.render_study import print_report
    from planner.search.studies.report import report_of
    from planner.search.studies.runner import space_of
    from planner.storage.store import open_store

    with open_store() as store:
        print_report(report_of(store, STUDY, space_of(store, store.studies.get(STUDY))))


def _cluster(recording: Path) -> None:
    from console.cluster.open import Opening
    from planner.cli.cluster import run
    from planner.cli.render_cluster import print_advice, print_overview

    view = run(_overview(Opening(replay=recording)))
    print_overview(view, advice=False)
    _heading("4. What is wrong there, and what to do")
    print_advice(view)
    sys.stdout.write(
        "\nThe study and the recording are gone now. To look around in them: planner demo, planner demo --web.\n"
        "Yours: planner doctor, planner recommend RECIPE, planner search RECIPE, planner cluster status.\n"
    )


async def _overview(opening: Opening) -> ClusterOverview:
    from console.cluster.open import open_source
    from console.views.cluster import overview

    async with open_source(opening) as source:
        return overview(source.snapshot())
