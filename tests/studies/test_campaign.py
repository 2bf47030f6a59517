"""Campaigns: informative runs, load generators driven by name, results that come back with their configuration."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.domain.deployment import DeploymentPlan
from planner.domain.engine import EngineName
from planner.domain.errors import InputError, MissingDataError, NotFeasibleError
from planner.measurements.design import log_det_information
from planner.measurements.model_predictor import ModelPredictor
from planner.measurements.pricing import PointPricer
from planner.perf.calibration import load_factor_pack
from planner.search.campaigns.design import candidate_points, design_campaign, planned_measurement
from planner.search.campaigns.document import Campaign, load_campaign, save_campaign
from planner.search.campaigns.jobs import QUEUE_LABEL, JobOptions, render_campaign
from planner.search.campaigns.load import (
    Endpoint,
    Generator,
    LoadFailedError,
    collect,
    command,
    find_generator,
    measure,
)
from planner.search.studies.space import SearchSpace
from planner.storage.store import Store

OPTIONS = JobOptions(
    queue="benchmarks", claim="results", load_image="registry.example/load:1", kubectl_image="r/k:1"
)


@pytest.fixture(scope="session")
def campaign(space: SearchSpace) -> Campaign:
    return design_campaign(space, runs=5, seed=0)


def information(space: SearchSpace, plans: list[DeploymentPlan]) -> float:
    predictor = ModelPredictor(PointPricer(factors=load_factor_pack()), EngineName(space.problem.engine))
    zero = np.zeros(len(predictor.factors))
    return log_det_information(predictor.jacobian([planned_measurement(p) for p in plans], zero))


def test_chosen_runs_tell_more_than_chance(space: SearchSpace, campaign: Campaign) -> None:
    best = information(space, [r.plan for r in campaign.runs])
    candidates = candidate_points(space, 100, seed=0)
    rng = np.random.default_rng(0)
    drawn = [
        information(space, [space.plan(int(i)) for i in rng.choice(candidates, 5, replace=False)])
        for _ in range(5)
    ]
    assert best > max(drawn)
    gains = [r.information for r in campaign.runs]
    assert all(g > 0.0 for g in gains)


def test_what_was_measured_is_not_asked_again(space: SearchSpace, campaign: Campaign) -> None:
    known = [planned_measurement(campaign.runs[0].plan)] * 20
    again = design_campaign(space, runs=5, seed=0, measured=known)
    first = campaign.runs[0]
    repeated = [
        r
        for r in again.runs
        if (r.plan.roles, r.plan.concurrency) == (first.plan.roles, first.plan.concurrency)
    ]
    assert not repeated


def test_a_campaign_survives_its_file(tmp_path: Path, campaign: Campaign) -> None:
    save_campaign(campaign, tmp_path)
    assert load_campaign(tmp_path) == campaign
    with pytest.raises(MissingDataError) as missing:
        load_campaign(tmp_path / "nowhere")
    assert missing.value.issues[0].code == "campaign.missing"
    (tmp_path / "campaign.json").write_text('{"name": 1}')
    with pytest.raises(InputError) as bad:
        load_campaign(tmp_path)
    assert bad.value.issues[0].code == "campaign.unreadable"
    with pytest.raises(MissingDataError, match="run-1"):
        campaign.run("run-1")


@pytest.mark.parametrize("generator", list(Generator))
def test_every_generator_is_told_the_load(generator: Generator, campaign: Campaign, tmp_path: Path) -> None:
    run = campaign.runs[0]
    line = " ".join(command(generator, run, Endpoint(url="http://e:8000/", model="m"), tmp_path / "r.json"))
    for part in (
        "http://e:8000",
        str(run.plan.concurrency),
        str(run.requests),
        str(run.plan.workload.isl),
        "r.json",
    ):
        assert part in line


def test_the_generator_must_be_installed() -> None:
    assert find_generator(None, which=lambda n: "/bin/x" if n == "aiperf" else None) is Generator.AIPERF
    with pytest.raises(MissingDataError) as caught:
        find_generator(Generator.VLLM, which=lambda _: None)
    assert caught.value.issues[0].code == "campaign.no_generator"


def program(folder: Path, text: str) -> None:
    path = folder / "vllm"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_failing_generator_is_reported_and_a_result_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, campaign: Campaign, store: Store
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    run, endpoint = campaign.runs[0], Endpoint(url="http://127.0.0.1:1", model="m")
    program(tools, "echo 'connection refused' >&2; exit 7")
    with pytest.raises(LoadFailedError) as caught:
        measure(run, endpoint, Generator.VLLM, folder=tmp_path)
    assert "status 7: connection refused" in caught.value.issues[0].why
    result = {
        "model_id": "m", "num_prompts": run.requests, "max_concurrency": run.plan.concurrency, "duration": 10.0,
        "completed": run.requests, "failed": 0, "total_input_tokens": 1000, "total_output_tokens": 5000,
        "request_throughput": 5.0, "output_throughput": 500.0, "total_token_throughput": 600.0, "mean_ttft_ms": 100.0,
        "median_ttft_ms": 100.0, "p99_ttft_ms": 130.0, "mean_tpot_ms": 10.0, "median_tpot_ms": 10.0, "p99_tpot_ms": 12.0,
    }  # fmt: skip
    (tmp_path / "made.json").write_text(json.dumps(result))
    out = tmp_path / "results" / f"{run.id}.json"
    program(tools, f"cp {tmp_path / 'made.json'} {out}")
    path = measure(run, endpoint, Generator.VLLM, folder=tmp_path)
    program(tools, "exit 9")
    assert measure(run, endpoint, Generator.VLLM, folder=tmp_path) == path
    report = collect(store, run, [path])
    assert (report.new, report.duplicates) == (1, 0)
    stored = store.measurements.list()[0].measurement
    assert stored.engine_version == run.plan.engine_version
    assert stored.gpus == run.plan.gpus_used
    assert stored.load.concurrency == run.plan.concurrency
    assert stored.result.output_tok_s_per_gpu == pytest.approx(500.0 / run.plan.gpus_used)
    assert collect(store, run, [path]).duplicates == 1


def test_jobs_wait_in_the_queue_and_tear_down(campaign: Campaign) -> None:
    rendered = render_campaign(campaign, {r.id: f"# {r.id}\n" for r in campaign.runs}, OPTIONS)
    jobs = [m.plain() for m in rendered.manifests if m.kind == "Job"]
    assert len(jobs) == len(campaign.runs)
    for job in jobs:
        assert job["metadata"]["labels"][QUEUE_LABEL] == "benchmarks"
        assert job["spec"]["suspend"] is True
        pod = job["spec"]["template"]["spec"]
        assert pod["restartPolicy"] == "Never"
        sidecar = pod["initContainers"][0]
        assert sidecar["restartPolicy"] == "Always"
        assert "trap cleanup EXIT" in sidecar["command"][2]
        assert "kubectl delete" in sidecar["command"][2]
        assert sidecar["startupProbe"]["exec"]["command"] == ["test", "-f", "/shared/ready"]
        assert pod["containers"][0]["command"] == ["guidellm"]
    names = [(m.kind, m.metadata.name) for m in rendered.manifests]
    assert len(set(names)) == len(names)
    assert all(len(n) <= 63 for _, n in names)


def test_the_budget_is_kept(campaign: Campaign) -> None:
    cost = sorted(r.gpu_hours for r in campaign.runs)
    budget = cost[0] + cost[1] + 0.01
    deployments = {r.id: "" for r in campaign.runs}
    rendered = render_campaign(campaign, deployments, replace(OPTIONS, budget_gpu_hours=budget))
    assert rendered.gpu_hours <= budget
    assert rendered.left_out
    by_name = {m.metadata.labels["wideplan/run"]: m.plain() for m in rendered.manifests if m.kind == "Job"}
    gpus = {r.id: r.plan.gpus_used for r in campaign.runs}
    worst = sum(job["spec"]["activeDeadlineSeconds"] / 3600.0 * gpus[i] for i, job in by_name.items())
    assert worst <= budget
    with pytest.raises(NotFeasibleError) as caught:
        render_campaign(campaign, deployments, replace(OPTIONS, budget_gpu_hours=cost[0] / 2.0))
    assert caught.value.issues[0].code == "campaign.over_budget"
