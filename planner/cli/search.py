"""`planner search`: an Optuna study over the legal set, on simulated results."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.completing import recipe_names
from planner.domain.errors import ExitCode, InputError, Issue
from planner.domain.study import Objective, SamplerName, StudyLevel

if TYPE_CHECKING:
    from planner.search.studies.runner import Ended

DEFAULT_TRIALS = 200
_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>s|m|min|h)?", re.ASCII)
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes that simulate; default: one per CPU.")
]
Trials = Annotated[
    int | None, typer.Option("--trials", min=1, help=f"Evaluations; default {DEFAULT_TRIALS}.")
]
Time = Annotated[str | None, typer.Option("--time", help="Limit such as 90s, 10m or 1h.")]
Mirror = Annotated[
    str | None,
    typer.Option(
        "--optuna-storage", help="Also copy trials to this Optuna database URL, for optuna-dashboard."
    ),
]


def search(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A recipe (planner recipes list), or use the flags.", autocompletion=recipe_names
        ),
    ] = None,
    trials: Trials = None,
    time: Time = None,
    level: Annotated[StudyLevel, typer.Option("--level", help="What the trials are.")] = StudyLevel.SIMULATED,
    sampler: Annotated[
        SamplerName, typer.Option("--sampler", help="How points are chosen.")
    ] = SamplerName.CANDIDATES,
    workers: Workers = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed and workers: the same trials.")] = 0,
    objective: Annotated[
        list[Objective] | None,
        typer.Option("--objective", help="Repeatable; default: rate per GPU and per user."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the study.")] = None,
    optuna_storage: Mirror = None,
    ladder: Annotated[
        bool, typer.Option("--ladder/--no-ladder", help="Repeat the best points in long runs.")
    ] = True,
    routers: Annotated[
        bool, typer.Option("--routers/--default-router", help="Also try other router weights.")
    ] = True,
    model: o.Model = None,
    gpu: o.Gpu = None,
    fabric: o.Fabric = None,
    cluster: o.Cluster = None,
    gpus: o.Gpus = None,
    isl: o.Isl = None,
    osl: o.Osl = None,
    prefix_hit: o.PrefixHit = None,
    prefix_shared: o.PrefixShared = None,
    ttft_ms: o.TtftMs = None,
    tpot_ms: o.TpotMs = None,
    tok_s_user: o.TokSUser = None,
    strategy: o.StrategyOption = None,
    kv_dtype: o.KvDtypeOption = None,
    engine_version: o.EngineVersion = None,
    usd_per_gpu_hour: o.Price = None,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Search with the simulator: propose, simulate, learn, and say how far the result may be from the best.

    Every finished trial is stored at once. Ctrl-C keeps them all and prints the command that continues. Exit status 1
    when no trial meets the targets.
    """
    from planner.search.studies.threads import one_thread

    one_thread()
    from planner.search.ask import Request, build_problem

    seconds = None if time is None else parse_duration(time)
    flags = Request(
        model=model, gpu=gpu, fabric=fabric, node=cluster, gpus=gpus, isl=isl, osl=osl, prefix_hit=prefix_hit, prefix_shared=prefix_shared,
        ttft_ms=ttft_ms, tpot_ms=tpot_ms, tok_s_user=tok_s_user, strategy=strategy, kv_dtype=kv_dtype,
        engine_version=engine_version, usd_per_gpu_hour=usd_per_gpu_hour, profiles=profiles,
    )  # fmt: skip
    if recipe is not None:
        from planner.search.from_recipe import with_recipe

        flags = with_recipe(recipe, flags)
    problem, engine = build_problem(flags)
    if level is StudyLevel.MEASURED:
        from planner.cli.campaign import propose_measured

        propose_measured(problem, engine, count=trials or 10, seed=seed, json=json)
        return

    from planner.search.studies.runner import Settings, StudyRun, create_study
    from planner.storage.store import open_store

    settings = Settings(
        sampler=sampler,
        level=level,
        seed=seed,
        objectives=tuple(objective) if objective else (Objective.RATE, Objective.USER),
        trials=trials if trials is not None or seconds is not None else DEFAULT_TRIALS,
        seconds=seconds,
        workers=workers or default_workers(),
        ladder=ladder,
        routers=routers,
        optuna_storage=optuna_storage,
        profiles=None if profiles is None else str(profiles.resolve()),
    )
    require_objectives(settings.objectives)
    with open_store() as store:
        study = create_study(store, problem, settings, name=name)
        sys.stderr.write(f"study {study.name}\n")
        show_run(
            lambda line: StudyRun(store, study, settings, problem=problem, engine=engine, report=line).run(),
            json=json,
        )


def show_run(run: RunStudy, *, json: bool) -> None:
    """Run a study with a progress line, print its report, and leave with the status that fits."""
    from planner.cli.study_progress import ProgressLine
    from planner.search.studies.loop import Stop
    from planner.search.studies.threads import end_like_an_interrupt

    end_like_an_interrupt()
    line = ProgressLine()
    try:
        ended = run(line)
    finally:
        line.close()
    show_report(ended, json=json)
    if ended.stop is Stop.INTERRUPTED:
        sys.stderr.write(
            f"interrupted; every finished trial is kept. Continue with: planner studies resume {ended.report.name}\n"
        )
        raise typer.Exit(int(ExitCode.INTERRUPTED))
    if ended.stop is Stop.TIME and ended.report.settings.get("trials") is not None:
        raise typer.Exit(int(ExitCode.STOPPED_EARLY))
    if ended.report.pick is None:
        raise typer.Exit(int(ExitCode.ANSWERED_NO))


def show_report(ended: Ended, *, json: bool) -> None:
    """The report on stdout, as tables or as ``wideplan.study/v1``."""
    if json:
        from planner.catalog.wire import unstructure
        from planner.cli.output import emit_json

        emit_json("study", unstructure(ended.report))
    else:
        from planner.cli.render_study import print_report

        print_report(ended.report)


def parse_duration(text: str) -> float:
    """Seconds of ``90s``, ``10m``, ``1.5h`` or plain seconds. InputError ``time.malformed``."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or float(match["number"]) <= 0.0:
        raise InputError(
            Issue(
                code="time.malformed",
                what=f"--time {text}",
                why="a time limit is a positive number with an optional unit: s, m or h",
                fix="--time 10m",
                where="--time",
            )
        )
    return float(match["number"]) * _SECONDS[match["unit"]]


def default_workers() -> int:
    """One process per CPU, at most eight: one process coordinates."""
    import os

    return max(min(os.cpu_count() or 1, 8), 1)


def require_objectives(objectives: tuple[Objective, ...]) -> None:
    """InputError ``objective.two`` unless throughput and a user's rate are among them: the front is over both."""
    if not {Objective.RATE, Objective.USER} <= set(objectives) or len(set(objectives)) != len(objectives):
        raise InputError(
            Issue(
                code="objective.two",
                what="--objective " + " --objective ".join(v.value for v in objectives),
                why="a study weighs throughput per GPU against the rate of a user; cost may be added",
                fix=f"name {Objective.RATE.value} and {Objective.USER.value}, each once",
                where="--objective",
            )
        )


if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.search.studies.progress import Progress

    RunStudy = Callable[[Callable[[Progress], None]], Ended]
