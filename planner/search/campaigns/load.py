"""Put the load of a run on an endpoint with an installed load generator, and import what it wrote."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from planner.domain.deployment import DeploymentPlan
from planner.domain.errors import ExitCode, InputError, Issue, MissingDataError, PlannerError
from planner.domain.measurement import MeasuredLoad
from planner.measurements.draft import RoleDraft, Supplied
from planner.measurements.importing import ImportReport, import_files
from planner.measurements.names import CatalogueNames
from planner.search.campaigns.document import RESULTS, CampaignRun
from planner.storage.store import Store

_SHOWN_LINES: Final = 6


class Generator(StrEnum):
    """Load generators that can be driven, in the order of preference."""

    VLLM = "vllm"
    GUIDELLM = "guidellm"
    AIPERF = "aiperf"


class LoadFailedError(PlannerError):
    """A load generator ended with an error; earlier runs are kept."""

    exit_code = ExitCode.STOPPED_EARLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the deployment answers. `model`: the served name. `tokenizer`: local folder or id, when it differs."""

    url: str
    model: str
    tokenizer: str | None = None


def command(generator: Generator, run: CampaignRun, endpoint: Endpoint, output: Path) -> tuple[str, ...]:
    """The command line that measures `run` and writes its result to `output` (a folder for aiperf)."""
    plan = run.plan
    isl, osl = plan.workload.isl, plan.workload.osl
    tokenizer = endpoint.tokenizer or endpoint.model
    url = endpoint.url.rstrip("/")
    if generator is Generator.VLLM:
        return (
            "vllm", "bench", "serve", "--backend", "openai", "--base-url", url, "--model", endpoint.model,
            "--tokenizer", tokenizer, "--dataset-name", "random", "--random-input-len", str(isl),
            "--random-output-len", str(osl), "--ignore-eos", "--num-prompts", str(run.requests), "--max-concurrency",
            str(plan.concurrency), "--seed", str(run.seed), "--percentile-metrics", "ttft,tpot,itl,e2el",
            "--metric-percentiles", "50,90,95,99", "--save-result", "--result-dir", str(output.parent),
            "--result-filename", output.name,
        )  # fmt: skip
    if generator is Generator.GUIDELLM:
        return (
            "guidellm", "run", "--backend", f"kind=openai_http,target={url},model={endpoint.model}", "--profile",
            f"kind=concurrent,streams={plan.concurrency}", "--constraint", f"kind=max_requests,count={run.requests}",
            "--data", f"kind=synthetic_text,prompt_tokens={isl},output_tokens={osl}", "--tokenizer",
            f"kind=huggingface_auto,model={tokenizer}", "--seed", f"kind=static,value={run.seed}", "--output",
            f"kind=json,path={output}", "--disable-console",
        )  # fmt: skip
    return (
        "aiperf", "profile", "--url", url, "--model", endpoint.model, "--tokenizer", tokenizer, "--endpoint-type", "chat",
        "--streaming", "--concurrency", str(plan.concurrency), "--request-count", str(run.requests),
        "--synthetic-input-tokens-mean", str(isl), "--output-tokens-mean", str(osl), "--random-seed", str(run.seed),
        "--artifact-dir", str(output),
    )  # fmt: skip


def find_generator(wanted: Generator | None, which: Callable[[str], str | None] = shutil.which) -> Generator:
    """The wanted generator, or the first that is installed. MissingDataError ``campaign.no_generator``."""
    for generator in (wanted,) if wanted is not None else tuple(Generator):
        if which(generator.value) is not None:
            return generator
    names = wanted.value if wanted is not None else ", ".join(Generator)
    raise MissingDataError(
        Issue(
            code="campaign.no_generator",
            what=f"load generator {names}",
            why="no such program is on the PATH",
            fix="pip install guidellm, or name an installed one with --generator",
            where="--generator",
        )
    )


def supplied_of(run: CampaignRun) -> Supplied:
    """What the campaign knows about a result and most result files do not say."""
    plan = run.plan
    drafts = [r.speculation.draft_tokens for r in plan.roles if r.speculation is not None]
    return Supplied(
        model=plan.model,
        gpu=plan.roles[-1].gpu,
        engine=plan.engine,
        engine_version=plan.engine_version,
        roles=roles_of(plan),
        isl=plan.workload.isl,
        osl=plan.workload.osl,
        prefix_hit=plan.workload.prefix_hit,
        load=MeasuredLoad(concurrency=float(plan.concurrency)),
        dbo=any(r.dbo for r in plan.roles),
        eplb=any(r.eplb is not None for r in plan.roles),
        mtp=bool(drafts),
        draft_tokens=drafts[0] if drafts else None,
        note=f"campaign {run.id}",
        override=True,
    )


def roles_of(plan: DeploymentPlan) -> tuple[RoleDraft, ...]:
    """The roles of a plan as an importer takes them."""
    return tuple(
        RoleDraft(
            role=r.role,
            groups=r.groups,
            tp=r.parallelism.tp,
            dp=r.parallelism.dp,
            ep=r.parallelism.ep,
            dcp=r.parallelism.dcp,
            gpu=r.gpu,
        )
        for r in plan.roles
    )


def result_path(folder: Path, run: CampaignRun, generator: Generator) -> Path:
    """Where the result of a run goes."""
    name = run.id if generator is Generator.AIPERF else f"{run.id}.json"
    return folder / RESULTS / name


def measure(
    run: CampaignRun,
    endpoint: Endpoint,
    generator: Generator,
    *,
    folder: Path,
    timeout_s: float | None = None,
) -> Path:
    """Run the generator for `run`; an existing result is not repeated. Raises LoadFailedError ``campaign.load_failed``."""
    output = result_path(folder, run, generator)
    if output.exists():
        return output
    output.parent.mkdir(parents=True, exist_ok=True)
    arguments = command(generator, run, endpoint, output)
    try:
        done = subprocess.run(  # noqa: S603 - the program is one of three known ones, arguments are a list
            arguments, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailedError(_failed(run, arguments, f"no result after {timeout_s:g} s", "")) from error
    if done.returncode != 0 or not output.exists():
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise LoadFailedError(_failed(run, arguments, f"it ended with status {done.returncode}", tail))
    return output


def collect(
    store: Store, run: CampaignRun, paths: Sequence[Path], *, profiles: Path | None = None
) -> ImportReport:
    """Import the results of one run with what the campaign knows about it."""
    return import_files(store, paths, supplied=supplied_of(run), names=CatalogueNames(profiles=profiles))


def results_of(folder: Path, run: CampaignRun) -> tuple[Path, ...]:
    """Result files of a run that are in `folder` or its results folder."""
    found = [f for root in (folder, folder / RESULTS) for f in (root / f"{run.id}.json", root / run.id)]
    return tuple(f for f in found if f.exists())


def require_results(found: Sequence[Path], folder: Path) -> None:
    """InputError ``campaign.no_results`` when there is nothing to import."""
    if not found:
        raise InputError(
            Issue(
                code="campaign.no_results",
                what=f"no results in {folder}",
                why="results are called after their run, e.g. run-01.json",
                fix="planner campaign run FOLDER --endpoint URL, or copy the results there",
            )
        )


def _failed(run: CampaignRun, arguments: Sequence[str], why: str, tail: str) -> Issue:
    return Issue(
        code="campaign.load_failed",
        what=f"{run.id}: {' '.join(arguments)}",
        why=f"{why}{': ' + tail if tail else ''}",
        fix="check the endpoint and the served model name, then run the same command again; finished runs are kept",
    )
