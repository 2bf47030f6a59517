"""The demo: shipped data, nothing of the user's touched, and a fault that is found."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from planner.cli.demo_data import CLUSTER, STUDY, demo_folder, unpacked
from planner.cli.main import main
from planner.domain.errors import InputError, MissingDataError
from planner.storage.bundle import dump_studies, load_studies
from planner.storage.database import parse_url
from planner.storage.store import open_store


def test_print_shows_recommendation_study_cluster_and_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("WIDEPLAN_DATABASE_URL", raising=False)
    with pytest.raises(SystemExit) as done:
        main(["demo", "--print"])
    assert not done.value.code
    out = capsys.readouterr()
    for words in ("Frontier", "Study demo", "Front"):
        assert words in out.out, words
    assert re.search(r"\b(\d+) of \1 endpoints ready", out.out)
    fault = out.out.partition("What is wrong there")[2]
    assert "queues 42 requests" in fault
    assert [line[:6] for line in fault.splitlines() if line.startswith(("! ", "  why:", "  fix:"))] == [
        "! deco",
        "  why:",
        "  fix:",
    ]
    assert max(map(len, out.out.splitlines())) <= 100
    assert "stale" not in out.err  # a recording that ends is not a server that fell silent
    assert list(tmp_path.rglob("*")) == []  # nothing of the user is touched


def test_the_variable_of_the_database_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIDEPLAN_DATABASE_URL", "sqlite:////nowhere/own.db")
    with unpacked() as made:
        assert os.environ["WIDEPLAN_DATABASE_URL"] == made.database_url
        folder = made.recording.parent
        assert folder.is_dir()
    assert os.environ["WIDEPLAN_DATABASE_URL"] == "sqlite:////nowhere/own.db"
    assert not folder.exists()
    monkeypatch.delenv("WIDEPLAN_DATABASE_URL")
    with unpacked():
        pass
    assert "WIDEPLAN_DATABASE_URL" not in os.environ


def test_a_bundle_is_the_study_again(tmp_path: Path) -> None:
    text = gzip.decompress((demo_folder() / f"{STUDY}-study.json.gz").read_bytes()).decode()
    with open_store(parse_url(f"sqlite:///{tmp_path / 'one.db'}")) as store:
        names = load_studies(store, text)
        first = dump_studies(store, [STUDY])
        with pytest.raises(InputError, match="already there"):
            load_studies(store, text)
    with open_store(parse_url(f"sqlite:///{tmp_path / 'two.db'}")) as store:
        load_studies(store, first)
        second = dump_studies(store, [STUDY])
    assert names[0] == STUDY
    once, twice, shipped = json.loads(first), json.loads(second), json.loads(text)
    assert once["problems"] == twice["problems"]
    assert once["plans"] == twice["plans"]
    assert len(once["plans"]) == len(shipped["plans"])
    for a, b, c in zip(once["trials"], twice["trials"], shipped["trials"], strict=True):
        assert a["outcome"] == b["outcome"] == c["outcome"] | {"plan_hash": a["outcome"]["plan_hash"]}
        assert (a["number"], a["study"], a["spec_hash"]) == (c["number"], c["study"], c["spec_hash"])


def test_hashes_are_taken_anew(tmp_path: Path) -> None:
    """A bundle of a version whose values hashed differently still holds together."""
    document = json.loads(gzip.decompress((demo_folder() / f"{STUDY}-study.json.gz").read_bytes()))
    text = json.dumps(document)
    for number, digest in enumerate((*document["problems"], *document["plans"])):
        text = text.replace(digest, f"{number:064x}")
    with open_store(parse_url(f"sqlite:///{tmp_path / 'own.db'}")) as store:
        load_studies(store, text)
        assert store.problems.get(store.studies.get(STUDY).problem_hash).gpus == 32
        named = [t.outcome.plan_hash for t in store.studies.trials(STUDY)]
        assert all(store.plans.get(h) for h in named if h is not None)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": "wideplan.plan/v1"}', '{"schema": "wideplan.study-bundle/v1"}']
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, text: str) -> None:
    with (
        open_store(parse_url(f"sqlite:///{tmp_path / 'own.db'}")) as store,
        pytest.raises(InputError) as caught,
    ):
        load_studies(store, text)
    assert caught.value.issues[0].code == "study.bundle"


def test_demo_data_that_is_missing_or_damaged_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.cli.demo_data.demo_folder", lambda: tmp_path)
    for damage in (None, b"", b"\x1f\x8b\x08cut"):
        if damage is not None:
            for name in (f"{STUDY}-study.json.gz", f"{CLUSTER}.gz"):
                (tmp_path / name).write_bytes(damage)
        with pytest.raises(MissingDataError) as caught, unpacked():
            pass
        assert caught.value.issues[0].code == "demo.missing"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--print"),
        (["--web", "--print"], "demo.one"),
        (["--print", "--theme", "x"], "demo.theme"),
        (["--port", "x"], "--port"),
    ],
)
def test_refusals(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["demo", *arguments])
    assert done.value.code == 2
    assert says in capsys.readouterr().err


def test_demo_cluster_is_cluster_demo(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["demo", "cluster"], ["cluster", "demo"]):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        shown.append(capsys.readouterr().out.partition("\n\n")[2])
    assert "--kubeconfig" in shown[0]
    assert shown[0] == shown[1]
