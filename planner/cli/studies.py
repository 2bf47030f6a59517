"""`planner studies`: what was searched, and how to continue, compare, export or delete it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json
from planner.domain.errors import ExitCode, InputError, Issue, NotFeasibleError

if TYPE_CHECKING:
    from planner.domain.study import StudySummary, Trial
    from planner.search.studies.report import StudyReport

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of a study (planner studies list).")]


@app.command("list")
def list_studies(json: o.Json = False) -> None:
    """All studies, newest first."""
    from planner.storage.store import open_store

    with open_store() as store:
        summaries = store.studies.list()
    if json:
        emit_json("studies", {"studies": [_summary(s) for s in summaries]})
        return
    if not summaries:
        sys.stderr.write("no studies yet; start one with: planner search RECIPE\n")
        return
    from planner.cli.render_study import print_summaries

    print_summaries(summaries)


@app.command()
def show(name: Name, json: o.Json = False) -> None:
    """Front, pick, regret and exclusions of a study."""
    report = _report(name)
    if json:
        _emit(report)
    else:
        from planner.cli.render_study import print_report

        print_report(report)
    if report.pick is None:
        raise typer.Exit(int(ExitCode.ANSWERED_NO))


@app.command()
def resume(
    name: Name,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="New total of evaluations.")] = None,
    time: Annotated[str | None, typer.Option("--time", help="Limit of this run: 90s, 10m, 1h.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes that simulate.")] = None,
    optuna_storage: Annotated[
        str | None, typer.Option("--optuna-storage", help="Also copy trials to this Optuna database URL.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Continue a study to its budget; finished trials are not repeated."""
    from planner.search.studies.threads import one_thread

    one_thread()
    from planner.cli.search import parse_duration, show_run
    from planner.search.studies.runner import Changes
    from planner.search.studies.runner import resume as continue_study
    from planner.storage.store import open_store

    changes = Changes(
        trials=trials,
        seconds=None if time is None else parse_duration(time),
        workers=workers,
        optuna_storage=optuna_storage,
    )
    with open_store() as store:
        show_run(lambda line: continue_study(store, name, report=line, changes=changes), json=json)


@app.command()
def stop(name: Name) -> None:
    """Ask whoever runs a study to stop: what runs is finished and recorded, nothing is lost."""
    from planner.domain.study import StudyState
    from planner.storage.store import open_store

    with open_store() as store:
        study = store.studies.get(name)
        if study.parent is not None:
            study = store.studies.get(study.parent)
        if study.state is not StudyState.RUNNING:
            raise NotFeasibleError(
                Issue(
                    code="study.not_running",
                    what=f"study '{study.name}' is {study.state.value}",
                    why="no process works on it",
                    fix=f"planner studies show {study.name}, or planner studies resume {study.name}",
                )
            )
        store.studies.set_state(study.name, StudyState.INTERRUPTED)
    sys.stderr.write(
        f"{study.name} stops when its running trials end. Continue with: planner studies resume {study.name}\n"
    )


@app.command()
def compare(
    names: Annotated[list[str], typer.Argument(help="Two or more studies.")], json: o.Json = False
) -> None:
    """Studies side by side. Hypervolumes compare only between studies of one problem, which is said."""
    reports = [_report(n) for n in names]
    same = len({r.problem_hash for r in reports}) == 1
    if json:
        from planner.catalog.wire import unstructure

        emit_json("study-comparison", {"same_problem": same, "studies": [unstructure(r) for r in reports]})
        return
    from planner.cli.render_study import print_comparison

    print_comparison(reports)
    if not same:
        sys.stderr.write("note: these studies answer different problems; their hypervolumes do not compare\n")


@app.command()
def export(
    name: Name,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Save the pick (or --trial N) as a plan file.")
    ] = None,
    trial: Annotated[
        int | None, typer.Option("--trial", help="Take this trial's plan instead of the pick.")
    ] = None,
    optuna_storage: Annotated[
        str | None, typer.Option("--optuna-storage", help="Copy all trials to this Optuna database URL.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Trials as CSV on stdout (or JSON), a trial's plan as a file, or the study as an Optuna study."""
    from planner.storage.store import open_store

    with open_store() as store:
        study = store.studies.get(name)
        trials = store.studies.trials(name)
        if plan is not None:
            from planner.catalog.plans import save_plan

            digest = _plan_hash(name, trials, trial)
            save_plan(store.plans.get(digest), plan)
            sys.stderr.write(f"wrote {plan}\n")
            return
        if optuna_storage is not None:
            from planner.search.studies.runner import copy_to_optuna

            copied = copy_to_optuna(store, study, optuna_storage)
            sys.stderr.write(f"copied {copied} trials; open them with: optuna-dashboard {optuna_storage}\n")
            return
    if json:
        from planner.catalog.wire import unstructure

        emit_json("study-trials", {"study": name, "trials": [unstructure(t) for t in trials]})
    else:
        _write_csv(trials)


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a study, its trials and its long runs; stored plans stay."""
    from planner.storage.store import open_store

    with open_store() as store:
        store.studies.get(name)
        children = [s.study.name for s in store.studies.list() if s.study.parent == name]
        if not yes:
            if not sys.stdin.isatty():
                raise InputError(
                    Issue(
                        code="study.confirm",
                        what=f"delete study '{name}'",
                        why="it cannot be undone, and nobody is here to ask",
                        fix="add --yes",
                        where="--yes",
                    )
                )
            typer.confirm(f"Delete '{name}' and its trials?", abort=True, err=True)
        removed = sum(store.studies.delete(n) for n in (*children, name))
    sys.stderr.write(f"deleted {name} with {removed} trials\n")


def _report(name: str) -> StudyReport:
    from planner.search.studies.report import report_of
    from planner.search.studies.runner import space_of
    from planner.storage.store import open_store

    with open_store() as store:
        study = store.studies.get(name)
        return report_of(store, name, space_of(store, study))


def _emit(report: StudyReport) -> None:
    from planner.catalog.wire import unstructure

    emit_json("study", unstructure(report))


def _summary(summary: StudySummary) -> dict[str, object]:
    study = summary.study
    return {
        "name": study.name,
        "level": study.level.value,
        "sampler": study.sampler,
        "seed": study.seed,
        "state": study.state.value,
        "parent": study.parent,
        "problem_hash": study.problem_hash,
        "trials": {s.value: n for s, n in summary.trials.items()},
        "budget_trials": study.settings.get("trials"),
        "created_at": None if study.created_at is None else study.created_at.isoformat(),
        "updated_at": None if study.updated_at is None else study.updated_at.isoformat(),
    }


def _plan_hash(name: str, trials: tuple[Trial, ...], wanted: int | None) -> str:
    if wanted is None:
        pick = _report(name).pick
        digest = None if pick is None else pick.plan_hash
    else:
        digest = next((t.outcome.plan_hash for t in trials if t.number == wanted), None)
    if digest is None:
        what = f"study '{name}'" if wanted is None else f"trial {wanted} of study '{name}'"
        raise NotFeasibleError(
            Issue(
                code="study.no_plan",
                what=what,
                why="no trial of it meets the targets" if wanted is None else "it has no stored plan",
                fix=f"see planner studies show {name}, or name another with --trial",
            )
        )
    return digest


def _write_csv(trials: tuple[Trial, ...]) -> None:
    import csv

    parameters = sorted({p for t in trials for p in t.parameters})
    attributes = sorted({a for t in trials for a in t.outcome.attributes})
    constraints = sorted({c for t in trials for c in t.outcome.constraints})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(
        [
            "trial",
            "state",
            "feasible",
            *parameters,
            *attributes,
            *(f"{c}_excess" for c in constraints),
            "error",
        ]
    )
    for t in trials:
        row: list[object] = [t.number, t.state.value, t.feasible]
        row += [t.parameters.get(p) for p in parameters]
        row += [t.outcome.attributes.get(a) for a in attributes]
        row += [t.outcome.constraints.get(c) for c in constraints]
        writer.writerow([*("" if v is None else v for v in row), t.outcome.error or ""])
