"""What is shipped: wheel and sdist are complete, and the installed program runs without the checkout."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import planner

ROOT = Path(__file__).resolve().parents[2]
# set to install every dependency from the index into an empty environment; takes minutes
DOWNLOAD = os.environ.get("WIDEPLAN_TEST_INSTALL") == "1"


@dataclass(frozen=True)
class Built:
    """The two files of a release, and what is in them."""

    wheel: Path
    sdist: Path

    @property
    def wheel_names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())

    @property
    def sdist_names(self) -> set[str]:
        with tarfile.open(self.sdist) as archive:
            return {n.partition("/")[2] for n in archive.getnames()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A wheel that was built from the sdist, as a release is."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
        cwd=out,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Built(wheel, sdist)


def tracked(folder: str) -> set[str]:
    """Files of a folder of this checkout, without what tools leave behind."""
    return {
        str(p.relative_to(ROOT / folder))
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }


@pytest.mark.parametrize("folder", ["profiles", "recipes", "migrations", "schemas"])
def test_data_folders_are_whole_in_both(built: Built, folder: str) -> None:
    wanted = tracked(folder)
    assert wanted
    prefix = f"planner/_data/{folder}/"
    assert {n.removeprefix(prefix) for n in built.wheel_names if n.startswith(prefix)} == wanted
    assert {n.removeprefix(f"{folder}/") for n in built.sdist_names if n.startswith(f"{folder}/")} >= wanted


def test_the_wheel_has_what_is_looked_up_by_name(built: Built) -> None:
    names = built.wheel_names
    for wanted in (
        "planner/_data/profiles/demo/demo-study.json.gz",
        "planner/_data/profiles/demo/demo-cluster.jsonl.gz",
        "planner/_data/profiles/operators/h200-sxm-vllm.npz",
        "planner/_data/schemas/recommendation.v1.json",
        "planner/_data/migrations/env.py",
        "planner/explain/codes.json",
        "console/tui/app.tcss",
    ):
        assert wanted in names, wanted
    assert {f"console/web/{n}" for n in tracked("console/web")} <= names
    licences = {n.rpartition("/")[2] for n in names if ".dist-info/licenses/" in n}
    assert licences == {"LICENSE", "NOTICE"}


def test_the_wheel_has_nothing_else(built: Built) -> None:
    tops = {n.split("/")[0] for n in built.wheel_names}
    assert tops == {"planner", "console", f"wideplan-{planner.__version__}.dist-info"}
    assert not [n for n in built.wheel_names if n.endswith((".pyc", ".db")) or "/tests/" in n]


def test_the_notice_names_the_sources_of_shipped_figures() -> None:
    text = (ROOT / "NOTICE").read_text()
    for source in ("aiconfigurator-core", "InferenceX", "ml-engineering"):
        assert source in text


# --- installed ---


@dataclass(frozen=True)
class Installed:
    """An environment of its own, and a folder away from the checkout."""

    bin: Path
    folder: Path

    def __call__(self, program: str, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WIDEPLAN_", "PYTHON", "COV"))}
        return subprocess.run(
            [str(self.bin / program), *args],
            cwd=self.folder,
            env={**clean, "XDG_DATA_HOME": str(self.folder / "data"), "KUBECONFIG": "/none", **more},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a new environment.

    Its dependencies are lent by the environment of the tests through a .pth file, which comes after its own packages, so
    that nothing is downloaded; with WIDEPLAN_TEST_INSTALL=1 they are installed from the index.
    """
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "env", with_pip=False)
    python = home / "env" / "bin" / "python"
    how = ["install", "--quiet", "--disable-pip-version-check", str(built.wheel)]
    if not DOWNLOAD:
        how += ["--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *how], check=True, cwd=home)
    if not DOWNLOAD:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        lent = home / "env" / "lib" / version / "site-packages" / "zz_lent.pth"
        lent.write_text("\n".join(site.getsitepackages()) + "\n")
    folder = home / "elsewhere"
    folder.mkdir()
    return Installed(home / "env" / "bin", folder)


def test_it_is_the_installed_one_that_runs(installed: Installed) -> None:
    done = installed("python", "-c", "import planner, console; print(planner.__file__, console.__file__)")
    for path in done.stdout.split():
        assert Path(path).is_relative_to(installed.bin.parent), done.stderr


@pytest.mark.parametrize("program", ["planner", "wideplan"])
def test_both_commands_are_there(installed: Installed, program: str) -> None:
    assert installed(program, "--version").stdout == f"wideplan {planner.__version__}\n"


def test_the_demo_runs_installed(installed: Installed) -> None:
    done = installed("planner", "demo", "--print")
    assert done.returncode == 0, done.stderr
    assert "What is wrong" in done.stdout
    assert not (installed.folder / "data").exists()


def test_a_recipe_is_planned_and_exported(installed: Installed) -> None:
    done = installed("planner", "recommend", "gpt-oss-120b-h200x8", "--save", "plan.json", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pick"]["plan"]["model"] == "openai/gpt-oss-120b"
    exported = installed("planner", "export", "plan.json")
    assert exported.returncode == 0, exported.stderr
    assert "kind: InferencePool" in exported.stdout


def test_the_database_is_created_from_the_shipped_migrations(installed: Installed) -> None:
    done = installed("planner", "studies", "list", XDG_DATA_HOME=str(installed.folder / "own"))
    assert done.returncode == 0, done.stderr
    assert (installed.folder / "own" / "wideplan" / "wideplan.db").is_file()


def test_doctor_finds_the_installation_whole(installed: Installed) -> None:
    path = f"{installed.bin}:{os.environ['PATH']}"
    done = installed("planner", "doctor", "--no-cluster", "--json", PATH=path)
    found = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert found["data"]["state"] == "ok"
    assert str(installed.bin.parent) in found["data"]["what"]
    assert found["command"]["state"] == "ok", found["command"]
