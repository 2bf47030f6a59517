"""Published schemas: none stale, none missing, and what the commands really print is what they say."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest
from jsonschema import Draft202012Validator

from planner.cli.demo_data import RECIPE, STUDY, Unpacked, unpacked
from planner.cli.main import main
from tests.measurements import samples as s

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas"
# documents that no test here can make: what it would take
NOT_MADE = {"operators-heldout": "refits the operator curves from a package that is not installed"}
MADE_BY = {
    "test_planning_documents": {"recommendation", "plan", "estimate", "why-not", "doctor", "schemas", "sizing"},
    "test_catalogue_documents": {
        "models", "model", "model-check", "profiles", "profile", "profiles-check", "recipes", "recipe", "recipes-check",
        "recipe-new",
    },
    "test_explanations": {"topics", "topic"},
    "test_simulation_documents": {"simulation", "comparison", "experiments", "experiment-results"},
    "test_scaling_documents": {"scaling", "elastic-ep", "async-eplb", "encoder"},
    "test_study_documents": {"studies", "study", "study-comparison", "study-trials", "campaign", "campaign-results"},
    "test_shard_lines": {"evaluation-spec", "evaluation-result", "shard-results"},
    "test_measurement_documents": {
        "measurements", "measurement", "measurements-import", "calibration", "points", "validation",
    },
    "test_cluster_documents": {"cluster-status", "cluster-profile", "cluster-residuals", "drift", "apply"},
    "test_manifest_documents": {"manifests", "plan-intent", "import", "lint", "lint-rules"},
}  # fmt: skip

Say = Callable[..., dict[str, Any]]


def closed(schema: Any) -> Any:
    """The schema with every object closed: a key that it does not know is then an error."""
    if isinstance(schema, dict):
        out = {k: closed(v) for k, v in schema.items()}
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            out.setdefault("additionalProperties", False)
        return out
    return [closed(v) for v in schema] if isinstance(schema, list) else schema


def problems(name: str, document: Any) -> list[str]:
    """Where `document` differs from its schema, closed."""
    schema = json.loads((SCHEMAS / f"{name}.v1.json").read_text())
    Draft202012Validator.check_schema(schema)
    found = Draft202012Validator(closed(schema)).iter_errors(document)
    return [f"{e.json_path}: {e.message[:300]}" for e in found]


POINTS = """\
id,model,quantization,gpu,engine,engine_version,mode,decode_workers,decode_tp,decode_dp,decode_ep,total_gpus,isl,osl,concurrency,output_tok_s_per_gpu,ttft_ms_p50,tpot_ms_p50,scale_up,date
a,DeepSeek-R1-0528,fp8,H200,vllm,0.10,agg,1,8,1,1,8,1024,1024,4,30,200,20,nvlink8,2026-01-02
b,NoSuchModel,fp8,H200,vllm,0.10,agg,1,8,1,1,8,1024,1024,4,30,200,20,nvlink8,2026-01-02
"""


# --- the folder ---


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    """docs/build_schemas.py."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "docs"))
    yield importlib.import_module("build_schemas")
    sys.path[:] = before


def test_schemas_are_not_stale(generator: ModuleType) -> None:
    there = {p.name: p.read_text() for p in SCHEMAS.iterdir()}
    assert there == generator.pages(), "run python docs/build_schemas.py"


def published() -> set[str]:
    return {p.name.removesuffix(".v1.json") for p in SCHEMAS.glob("*.v1.json")}


def test_every_document_of_the_source_has_a_schema(generator: ModuleType) -> None:
    named: set[str] = set()
    for path in [*(ROOT / "planner").rglob("*.py"), *(ROOT / "console").rglob("*.py")]:
        text = path.read_text()
        named |= set(re.findall(r"emit_json\(\s*\"([a-z-]+)\"", text))
        named |= set(re.findall(r"\"wideplan\.([a-z-]+)/v1\"", text))
    internal = set(importlib.import_module("schema_documents").INTERNAL)
    assert "recommendation" in named
    assert named - published() - internal == set()
    assert published() & internal == set()


def test_every_schema_is_compared_with_a_real_document() -> None:
    made = {name for names in MADE_BY.values() for name in names}
    assert made | NOT_MADE.keys() == published()


def test_a_key_that_is_not_in_the_schema_is_found() -> None:
    good = {"schema": "wideplan.shard-results/v1", "study": "s", "new": 1, "known": 0}
    assert problems("shard-results", good) == []
    assert problems("shard-results", good | {"more": 1})
    assert problems("shard-results", good | {"new": "1"})
    assert problems("shard-results", {k: v for k, v in good.items() if k != "new"})


# --- the command ---


def test_schemas_list_and_show(planner_cli) -> None:
    listed = planner_cli("schemas", "list")
    assert listed.returncode == 0
    assert max(map(len, listed.stdout.splitlines())) <= 100
    shown = planner_cli("schemas", "show", "wideplan.recommendation/v1")
    assert json.loads(shown.stdout)["$id"] == "urn:wideplan:recommendation:v1"
    wrong = planner_cli("schemas", "show", "recomendation")
    assert wrong.returncode == 2
    assert "recommendation" in wrong.stderr


# --- what the commands print ---


@pytest.fixture(scope="module")
def demo() -> Iterator[Unpacked]:
    with unpacked() as made:
        yield made


@pytest.fixture
def say(demo: Unpacked, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Run a command here, on the demo's database, and return its document; `status` is what it must end with."""
    monkeypatch.setenv("WIDEPLAN_DATABASE_URL", demo.database_url)

    def run(*args: str, status: int | None = 0) -> dict[str, Any]:
        capsys.readouterr()
        try:
            main(list(args))
            ended = 0
        except SystemExit as done:
            ended = int(done.code or 0)
        out = capsys.readouterr()
        assert ended == status or (status is None and ended in (0, 1)), out.err
        document: dict[str, Any] = json.loads(out.out)
        return document

    return run


Check = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Iterator[Check]:
    """Compare a document with its schema; in the end the test has made just the documents it declares."""
    made: set[str] = set()

    def compare(document: dict[str, Any]) -> dict[str, Any]:
        name = document["schema"].removeprefix("wideplan.").removesuffix("/v1")
        assert problems(name, document) == []
        made.add(name)
        return document

    yield compare
    assert made == MADE_BY[request.node.name]


QUESTION = (
    "--model", "openai/gpt-oss-120b", "--gpu", "h200-sxm", "--gpus", "8", "--isl", "1000", "--osl", "200",
)  # fmt: skip
ROLE = ("--aggregated", "1x(tp8,dp1)")


@pytest.fixture(scope="module")
def plan_file(demo: Unpacked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan that the demo's cluster runs."""
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    with pytest.raises(SystemExit) as done:
        main(["recommend", RECIPE, "--save", str(path)])
    assert not done.value.code
    return path


def test_planning_documents(say: Say, check: Check, plan_file: Path, tmp_path: Path) -> None:
    check(say("recommend", *QUESTION, "--json"))
    # nothing meets these targets: the document has no pick and a shortfall
    none = check(say("recommend", *QUESTION, "--ttft-ms", "2000", "--tpot-ms", "0.9", "--json", status=1))
    assert none["pick"] is None
    check(json.loads(plan_file.read_text()))
    check(say("estimate", str(plan_file), "--json"))
    check(say("size", *QUESTION[:4], *QUESTION[6:], "--users", "100", "--tpot-ms", "20", "--json"))
    check(say("why-not", *QUESTION, *ROLE, "--json", status=1))
    check(say("why-not", *QUESTION, "--aggregated", "1x(tp3,dp1)", "--json", status=1))
    check(say("doctor", "--no-cluster", "--model", "openai/gpt-oss-120b", "--gpu", "h200-sxm", "--json"))
    check(say("schemas", "list", "--json"))


def test_catalogue_documents(say: Say, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(say("models", "list", "--json"))
    check(say("models", "show", "qwen/qwen3-next-80b-a3b-instruct", "--json"))
    broken = tmp_path / "config.json"
    broken.write_text('{"architectures": ["NoSuchModel"], "model_type": "nothing"}')
    check(say("models", "check", str(broken), "--json", status=2))
    check(say("profiles", "list", "--json"))
    for name in ("h200-sxm", "ib-ndr400", "generic-h200-sxm", "vllm-0.33.0"):
        check(say("profiles", "show", name, "--json"))
    check(say("profiles", "check", str(ROOT / "profiles" / "gpus" / "mi300x.yaml"), "--json"))
    check(say("recipes", "list", "--json"))
    check(say("recipes", "show", RECIPE, "--json"))
    check(say("recipes", "check", "gpt-oss-120b-h200x8", "--json", status=None))
    monkeypatch.chdir(tmp_path)
    check(say("recipes", "new", "mine", *QUESTION, "--why", "to see it", "--json"))


def test_explanations(say: Say, check: Check) -> None:
    topics = check(say("explain", "--json"))["topics"]
    by_kind = {t["kind"]: t["name"] for t in topics}
    assert len(by_kind) > 2
    for name in by_kind.values():
        check(say("explain", *name.split(), "--json"))


def test_simulation_documents(say: Say, check: Check, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    say("recommend", *QUESTION, "--save", str(plan), "--json")
    load = ("--requests", "40", "--concurrency", "8")
    check(say("simulate", str(plan), *load, "--json"))
    check(
        say(
            "compare",
            str(plan),
            "--router",
            "random",
            "--router",
            "prefix",
            "--replications",
            "2",
            *load,
            "--json",
        )
    )
    listed = check(say("experiments", "list", "--json"))["experiments"]
    quick = next(e["name"] for e in listed if not e["simulated"])
    check(say("experiments", "run", quick, "--json"))


def test_scaling_documents(say: Say, check: Check, plan_file: Path) -> None:
    curve = ("--peak-rps", "1", "--trough-rps", "0.2", "--period", "2m", "--cold-start-s", "10")
    check(say("simulate", str(plan_file), "--autoscale", *curve, "--json"))
    change = ("--pause-s", "5", "--prepare-s", "5")
    check(say("simulate", str(plan_file), "--scenario", "elastic-ep", *curve, *change, "--json"))
    check(say("simulate", str(plan_file), "--scenario", "async-eplb", "--requests", "40", "--json"))
    check(say("encoder", "qwen3.5-397b-b200x8", "--images-per-request", "1", "--json"))


def test_study_documents(say: Say, check: Check, tmp_path: Path) -> None:
    check(say("studies", "list", "--json"))
    (report,) = check(say("studies", "compare", STUDY, "--json"))["studies"]
    check({"schema": "wideplan.study/v1", **report})  # what `studies show` prints
    check(say("studies", "export", STUDY, "--json"))
    made = check(
        say("campaign", "design", "gpt-oss-120b-h200x8", "--runs", "1", "--out", str(tmp_path), "--json")
    )
    check(json.loads((tmp_path / "campaign.json").read_text()))
    results = tmp_path / "results"
    results.mkdir()
    run = made["runs"][0]["id"]
    (results / f"{run}.json").write_bytes(s.dump(s.vllm(model_id=made["runs"][0]["plan"]["model"])))
    check(say("campaign", "collect", str(tmp_path), "--json"))


def test_shard_lines(
    say: Say, check: Check, plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner.catalog.plans import load_plan
    from planner.domain.study import StudyLevel
    from planner.search.studies.evaluate import SHORT, Observation
    from planner.search.studies.specs import EvalResult, EvalSpec

    spec = EvalSpec(
        problem_hash="0" * 64, plan=load_plan(plan_file), level=StudyLevel.SIMULATED, version="1", fidelity=SHORT, seed=0
    )  # fmt: skip
    check(json.loads(spec.to_json()))
    seen = Observation(output_tok_s_per_gpu=100.0, tpot_ms=40.0, ttft_ms=900.0)
    lost = Observation(output_tok_s_per_gpu=0.0, tpot_ms=0.0, ttft_ms=0.0, error="no figures")
    lines = [EvalResult(spec_hash=spec.hash, observation=o).to_json() for o in (seen, lost)]
    for line in lines:
        check(json.loads(line))
    # looking up which point of 300,000 a line belongs to takes minutes; the document is the same
    monkeypatch.setattr("planner.search.campaigns.shards.gather_results", lambda *_: (1, 0))
    check(say("campaign", "gather", STUDY, str(tmp_path), "--json"))


def test_measurement_documents(
    say: Say, check: Check, demo: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIDEPLAN_DATABASE_URL", f"sqlite:///{tmp_path / 'own.db'}")
    files = []
    for users, factor in ((64, 0.6), (128, 0.8), (256, 1.0)):
        files.append(tmp_path / f"{users}.json")
        files[-1].write_bytes(
            s.dump(
                s.vllm(
                    max_concurrency=users,
                    output_throughput=s.OUTPUT_TOK_S * factor,
                    median_tpot_ms=31.5 * factor,
                )
            )
        )
    names = [str(f) for f in files]
    check(say("measurements", "import", *names, "--dry-run", "--json"))
    found = check(say("measurements", "import", *names, "--json"))["measurements"]
    check(say("measurements", "list", "--json"))
    check(say("measurements", "show", found[0]["hash"], "--json"))
    check(say("calibrate", "--dry-run", "--json"))
    points = tmp_path / "points.csv"
    points.write_text(POINTS)
    check(say("estimate", "--points", str(points), "--json"))
    check(say("validate", str(points), "--json"))


class BoxThread:
    """A cluster in a box in a thread of its own, with a plan deployed."""

    def __init__(self, plan: Path, kubeconfig: Path) -> None:
        from planner.cli.demo_cluster import deployment

        self._objects, self._loads = deployment(plan)
        self._kubeconfig = kubeconfig
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._run(),), daemon=True
        )

    async def _run(self) -> None:
        from console.cluster.fake.box import cluster_in_a_box

        async with cluster_in_a_box(nodes=4, objects=self._objects, loads=self._loads) as box:
            self._kubeconfig.write_text(box.kubeconfig())
            self._up.set()
            await self._stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()


def test_cluster_documents(say: Say, check: Check, demo: Unpacked, plan_file: Path, tmp_path: Path) -> None:
    check(say("cluster", "status", "--replay", str(demo.recording), "--json"))
    check(say("cluster", "profile", "--replay", str(demo.recording), "--json"))
    check(say("cluster", "residuals", str(plan_file), "--replay", str(demo.recording), "--json"))
    kubeconfig = tmp_path / "kubeconfig"
    with BoxThread(plan_file, kubeconfig):
        check(say("diff", str(plan_file), "--kubeconfig", str(kubeconfig), "--json"))
        check(say("apply", str(plan_file), "--kubeconfig", str(kubeconfig), "--json"))


def test_manifest_documents(say: Say, check: Check, plan_file: Path, tmp_path: Path) -> None:
    made = check(say("export", str(plan_file), "--json"))
    intents = [
        json.loads(text)
        for o in made["objects"]
        for key, text in (o["metadata"].get("annotations") or {}).items()
        if "wideplan" in key and text.startswith("{")
    ]
    assert intents
    for intent in intents:
        check(intent)
    stream = tmp_path / "plan.yaml"
    stream.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": made["objects"]}))
    check(say("import", str(stream), "--json"))
    check(say("lint", str(stream), "--json"))
    check(say("lint", str(stream), "--against", str(plan_file), "--json"))
    check(say("lint", "--list-rules", "--json"))
