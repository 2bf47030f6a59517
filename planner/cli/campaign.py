"""`planner campaign`: which benchmarks to run next, running their load, and rendering them as Kubernetes Jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, print_table, stdout
from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean

if TYPE_CHECKING:
    from planner.domain.engine import EngineProfile
    from planner.domain.measurement import Measurement
    from planner.domain.problem import PlanningProblem
    from planner.search.campaigns.document import Campaign, CampaignRun
    from planner.search.campaigns.jobs import JobOptions, RenderedCampaign
    from planner.search.campaigns.load import Generator

app = typer.Typer(no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Folder of a campaign (planner campaign design --out).")]
RunIds = Annotated[list[str] | None, typer.Option("--run", help="Only this run, e.g. run-01; repeatable.")]


@app.command()
def design(
    recipe: Annotated[str, typer.Argument(help="A recipe (planner recipes list).")],
    runs: Annotated[int, typer.Option("--runs", min=1, help="Benchmarks to choose.")] = 10,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write campaign.json and plans here.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the candidates and of the load.")] = 0,
    name: Annotated[str | None, typer.Option("--name", help="Name of the campaign.")] = None,
    ttft_ms: o.TtftMs = None,
    tpot_ms: o.TpotMs = None,
    strategy: o.StrategyOption = None,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Choose the benchmarks that tell most about the model's factors (D-optimal over the legal space).

    Measurements that were imported for the same model, GPU and engine version count as known.
    """
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe

    flags = Request(ttft_ms=ttft_ms, tpot_ms=tpot_ms, strategy=strategy, profiles=profiles)
    problem, engine = build_problem(with_recipe(recipe, flags))
    _design(problem, engine, runs=runs, seed=seed, name=name, out=out, json=json)


def propose_measured(
    problem: PlanningProblem, engine: EngineProfile, *, count: int, seed: int, json: bool
) -> None:
    """The next measurements to make for `problem`: what ``planner search --level measured`` answers."""
    _design(problem, engine, runs=count, seed=seed, name=None, out=None, json=json)
    if not json:
        sys.stderr.write("write them to a folder with: planner campaign design RECIPE --out FOLDER\n")


@app.command()
def run(
    folder: Folder,
    endpoint: Annotated[str, typer.Option("--endpoint", help="URL where the run's plan is deployed.")],
    run_ids: RunIds = None,
    generator: Annotated[str | None, typer.Option("--generator", help="vllm, guidellm or aiperf.")] = None,
    served_model: Annotated[
        str | None, typer.Option("--served-model", help="Model name of the endpoint.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="Folder or id, when it differs.")
    ] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Limit per run, e.g. 30m.")] = None,
    json: o.Json = False,
) -> None:
    """Put the load of runs on an endpoint and import the results. Nothing is deployed: name the run that is.

    A run whose result is already in the folder is not repeated.
    """
    from planner.cli.search import parse_duration
    from planner.search.campaigns.document import load_campaign
    from planner.search.campaigns.load import Endpoint, collect, find_generator, measure
    from planner.storage.store import open_store

    campaign = load_campaign(folder)
    chosen = _chosen(campaign, run_ids)
    tool = find_generator(_generator(generator))
    limit = None if timeout is None else parse_duration(timeout)
    reports: list[tuple[str, int, int]] = []
    with open_store() as store:
        for one in chosen:
            sys.stderr.write(
                f"{one.id}: {one.plan.label()}, {one.plan.concurrency} in flight, {one.requests} requests\n"
            )
            target = Endpoint(url=endpoint, model=served_model or one.served_name, tokenizer=tokenizer)
            result = measure(one, target, tool, folder=folder, timeout_s=limit)
            report = collect(store, one, [result])
            reports.append((one.id, report.new, report.duplicates))
    _say_imported(reports, json=json)


@app.command("collect")
def collect_results(
    folder: Folder,
    results: Annotated[
        Path | None, typer.Option("--results", help="Where the results are; default: in the folder.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Import results that Jobs or colleagues produced, with the configuration that the campaign knows."""
    from planner.search.campaigns.document import load_campaign
    from planner.search.campaigns.load import collect, require_results, results_of
    from planner.storage.store import open_store

    campaign = load_campaign(folder)
    where = results or folder
    found = {r.id: results_of(where, r) for r in campaign.runs}
    require_results([f for files in found.values() for f in files], where)
    reports: list[tuple[str, int, int]] = []
    with open_store() as store:
        for one in campaign.runs:
            if found[one.id]:
                report = collect(store, one, found[one.id])
                reports.append((one.id, report.new, report.duplicates))
    _say_imported(reports, json=json)


@app.command()
def export(
    folder: Folder,
    kueue: Annotated[bool, typer.Option("--kueue", help="As Kubernetes Jobs queued by Kueue.")] = False,
    queue: Annotated[str, typer.Option("--queue", help="LocalQueue of Kueue.")] = "benchmarks",
    claim: Annotated[
        str, typer.Option("--claim", help="PersistentVolumeClaim for the results.")
    ] = "benchmark-results",
    budget_gpu_hours: Annotated[
        float | None, typer.Option("--budget-gpu-hours", min=0.0, help="Runs beyond it are left out.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the objects.")
    ] = None,
    generator: Annotated[str, typer.Option("--generator", help="vllm, guidellm or aiperf.")] = "guidellm",
    load_image: Annotated[
        str | None, typer.Option("--load-image", help="Image of the load generator.")
    ] = None,
    kubectl_image: Annotated[
        str | None, typer.Option("--kubectl-image", help="Image with kubectl and a shell.")
    ] = None,
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="URL of a run's deployment; {name} is the run's.")
    ] = "http://{name}",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; default: one stream on stdout.")
    ] = None,
    profiles: o.Profiles = None,
) -> None:
    """The campaign as Jobs: each deploys its plan, waits, loads it, keeps the result and tears down."""
    if not kueue:
        raise InputError(
            Issue(
                code="campaign.target",
                what="campaign export without a target",
                why="Kubernetes Jobs queued by Kueue are the one form there is",
                fix="add --kueue",
                where="--kueue",
            )
        )
    from planner.search.campaigns.document import load_campaign
    from planner.search.campaigns.jobs import JobOptions

    tool = _generator(generator)
    assert tool is not None  # noqa: S101 - `generator` has a default
    if load_image is None or kubectl_image is None:
        raise InputError(
            Issue(
                code="campaign.images",
                what="no image for the load generator or for kubectl",
                why="the Jobs run both in your cluster, from a registry that it reaches",
                fix="--load-image IMAGE --kubectl-image IMAGE",
                where="--load-image",
            )
        )
    options = JobOptions(
        queue=queue, claim=claim, namespace=namespace, budget_gpu_hours=budget_gpu_hours, generator=tool,
        load_image=load_image, kubectl_image=kubectl_image, endpoint=endpoint,
    )  # fmt: skip
    campaign = load_campaign(folder)
    rendered = _render(campaign, options, profiles)
    _write(rendered, campaign, out)


@app.command()
def shards(
    study: Annotated[
        str, typer.Argument(help="A study whose untried candidates are to be simulated elsewhere.")
    ],
    image: Annotated[str, typer.Option("--image", help="Container image with this program.")],
    points: Annotated[int, typer.Option("--points", min=1, help="Candidates to evaluate.")] = 1000,
    per_shard: Annotated[int, typer.Option("--per-shard", min=1, help="Evaluations per pod.")] = 200,
    claim: Annotated[
        str, typer.Option("--claim", help="PersistentVolumeClaim for the results.")
    ] = "shard-results",
    queue: Annotated[str | None, typer.Option("--queue", help="LocalQueue of Kueue.")] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the objects.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; default: one stream on stdout.")
    ] = None,
) -> None:
    """An indexed Job that simulates a study's next candidates; take the results back with planner campaign gather."""
    from planner.search.campaigns.shards import shard_study
    from planner.storage.store import open_store

    with open_store() as store:
        manifests = shard_study(
            store,
            study,
            image=image,
            points=points,
            per_shard=per_shard,
            claim=claim,
            queue=queue,
            namespace=namespace,
        )
    _emit(manifests, (f"simulations of study {study}",), out)


@app.command()
def gather(
    study: Annotated[str, typer.Argument(help="The study the shards were written for.")],
    results: Annotated[Path, typer.Argument(help="Folder with results-*.jsonl.")],
    json: o.Json = False,
) -> None:
    """Take the results of shards into their study; results that are known are not taken twice."""
    from planner.search.campaigns.shards import gather_results
    from planner.storage.store import open_store

    with open_store() as store:
        new, known = gather_results(store, study, results)
    if json:
        emit_json("shard-results", {"study": study, "new": new, "known": known})
    else:
        stdout().print(f"{new} new trials in {study}, {known} known before")


@app.command()
def work(
    folder: Annotated[Path, typer.Argument(help="Folder with problem.json and specs-*.jsonl.")],
    shards: Annotated[int, typer.Option("--shards", min=1, help="Number of shards.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.")],
    index: Annotated[
        int, typer.Option("--index", min=0, envvar="JOB_COMPLETION_INDEX", help="This shard.")
    ] = 0,
) -> None:
    """Evaluate one shard of specifications (what the pods of an indexed Job run)."""
    from planner.search.studies.threads import one_thread

    one_thread()
    from planner.search.campaigns.shards import work as evaluate

    done, known = evaluate(folder, index=index, shards=shards, out=out)
    sys.stderr.write(f"shard {index}: {done} evaluated, {known} known before\n")


def _design(
    problem: PlanningProblem,
    engine: EngineProfile,
    *,
    runs: int,
    seed: int,
    name: str | None,
    out: Path | None,
    json: bool,
) -> None:
    from planner.search.campaigns.design import design_campaign
    from planner.search.solve import solve
    from planner.search.studies.space import SearchSpace

    space = SearchSpace(solve(problem, engine))
    campaign = design_campaign(space, runs=runs, seed=seed, measured=_measured(problem), name=name)
    if out is not None:
        from planner.catalog.plans import save_plan
        from planner.search.campaigns.document import save_campaign

        save_campaign(campaign, out)
        for one in campaign.runs:
            save_plan(one.plan, out / f"{one.id}.yaml")
        sys.stderr.write(
            f"wrote {out}; deploy a run with: planner export {out}/run-01.yaml | kubectl apply -f -\n"
        )
    if json:
        from planner.catalog.wire import unstructure

        document = dict(unstructure(campaign))
        document.pop("schema", None)
        emit_json("campaign", document)
        return
    print_table(
        ("run", "plan", "in flight", "requests", "information", "GPU-hours"),
        [
            (
                r.id,
                r.plan.label(),
                str(r.plan.concurrency),
                str(r.requests),
                f"{r.information:.2f}",
                f"{r.gpu_hours:.1f}",
            )
            for r in campaign.runs
        ],
        title=f"Campaign {campaign.name}",
        right=(2, 3, 4, 5),
    )
    for note in campaign.notes:
        stdout().print(note)


def _measured(problem: PlanningProblem) -> tuple[Measurement, ...]:
    from planner.storage.store import open_store

    with open_store() as store:
        stored = store.measurements.list(
            model=problem.model.id, gpu=problem.decode_pool.gpu.id, engine_version=problem.engine_version
        )
    return tuple(s.measurement for s in stored)


def _chosen(campaign: Campaign, run_ids: list[str] | None) -> tuple[CampaignRun, ...]:
    if run_ids:
        return tuple(campaign.run(i) for i in run_ids)
    if len(campaign.runs) == 1:
        return campaign.runs
    raise InputError(
        Issue(
            code="campaign.which_run",
            what=f"campaign {campaign.name} has {len(campaign.runs)} runs",
            why="an endpoint serves one plan, and nothing is deployed here",
            fix="name the run that is deployed there: --run run-01",
            where="--run",
        )
    )


def _generator(text: str | None) -> Generator | None:
    from planner.search.campaigns.load import Generator

    if text is None:
        return None
    known = [g.value for g in Generator]
    if text not in known:
        raise InputError(
            Issue(
                code="campaign.generator_unknown",
                what=f"--generator {text}",
                why="load generators are driven by name",
                fix=did_you_mean(text, known),
                where="--generator",
            )
        )
    return Generator(text)


def _render(campaign: Campaign, options: JobOptions, profiles: Path | None) -> RenderedCampaign:
    from planner import __version__
    from planner.export.options import ExportOptions
    from planner.export.targets import export_plan
    from planner.search.campaigns.jobs import render_campaign, run_name
    from planner.search.manifest_facts import load_facts

    deployments: dict[str, str] = {}
    for one in campaign.runs:
        model, hardware = load_facts(one.plan, profiles=profiles)
        made = export_plan(
            one.plan,
            model=model,
            hardware=hardware,
            options=ExportOptions(
                namespace=options.namespace,
                name=run_name(campaign, one),
                created_by=f"wideplan {__version__}",
            ),
        )
        if made.stream is None:
            raise MissingDataError(
                Issue(
                    code="campaign.no_manifests",
                    what=f"{one.id}: {one.plan.label()}",
                    why="this plan cannot be written as one stream of objects",
                    fix="leave the run out of the campaign",
                )
            )
        deployments[one.id] = made.stream
    return render_campaign(campaign, deployments, options)


def _write(rendered: RenderedCampaign, campaign: Campaign, out: Path | None) -> None:
    header = (
        (
            f"campaign {campaign.name}: {len(campaign.runs) - len(rendered.left_out)} runs, "
            f"{rendered.gpu_hours:g} GPU-hours estimated"
        ),
    )
    if rendered.left_out:
        sys.stderr.write(f"over budget, left out: {', '.join(rendered.left_out)}\n")
    _emit(rendered.manifests, header, out)


def _emit(manifests: tuple[object, ...], header: tuple[str, ...], out: Path | None) -> None:
    from planner.export.folder import write_folder
    from planner.export.objects import Manifest
    from planner.export.targets.base import document_file, stream_of

    objects = [m for m in manifests if isinstance(m, Manifest)]
    if out is None:
        sys.stdout.write(stream_of(objects, header))
        return
    files = [
        document_file(f"{i:02d}-{m.file_name}", m.plain(), (*(header if i == 1 else ()), *m.comments))
        for i, m in enumerate(objects, start=1)
    ]
    for path in write_folder(files, out):
        sys.stderr.write(f"wrote {path}\n")


def _say_imported(reports: list[tuple[str, int, int]], *, json: bool) -> None:
    if json:
        emit_json("campaign-results", {"runs": [{"run": r, "new": n, "known": d} for r, n, d in reports]})
        return
    print_table(("run", "new", "known before"), [(r, str(n), str(d)) for r, n, d in reports], right=(1, 2))
    stdout().print("use them with: planner calibrate")
