"""The data files are found in a checkout and in an installed wheel; what is unsure is said."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner.catalog.assumptions import unconfirmed_assumptions
from planner.catalog.engines import load_engine
from planner.catalog.hardware import load_fabric, load_gpu
from planner.catalog.locate import data_root, profile_dirs, recipe_dir

PACKAGE = Path(planner.__file__).parent


def test_a_checkout_uses_its_own_folders() -> None:
    root = data_root()
    assert root == PACKAGE.parent
    assert profile_dirs("gpus") == (root / "profiles" / "gpus",)
    assert recipe_dir().is_dir()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Site-packages as the wheel lays them out, with the data inside the package."""
    site = tmp_path / "site-packages"
    for part in ("catalog", "domain"):
        shutil.copytree(PACKAGE / part, site / "planner" / part, ignore=shutil.ignore_patterns("__pycache__"))
    (site / "planner" / "__init__.py").touch()
    for part in ("profiles", "recipes"):
        shutil.copytree(data_root() / part, site / "planner" / "_data" / part)
    (site / "profiles").mkdir()  # another distribution's folder must not be taken for ours
    return site


def in_site(site: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=site,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(site)},
    )
    return done.stdout.strip()


def test_an_installed_wheel_uses_the_data_inside_it(installed: Path) -> None:
    code = (
        "from planner.catalog.recipes import load_recipe; from planner.catalog.hardware import load_gpu;"
        "from planner.catalog.locate import data_root;"
        "print(data_root(), load_gpu(load_recipe('deepseek-r1-h200x32').pool.gpu).id)"
    )
    assert in_site(installed, code) == f"{installed / 'planner' / '_data'} h200-sxm"


def test_an_installation_without_data_says_so(installed: Path) -> None:
    shutil.rmtree(installed / "planner" / "_data")
    (installed / "profiles").rmdir()
    code = (
        "from planner.catalog.locate import data_root; from planner.domain.errors import MissingDataError\n"
        "try: data_root()\n"
        "except MissingDataError as e: print(e.issues[0].code)"
    )
    assert in_site(installed, code) == "data.missing"


def test_unconfirmed_inputs_become_assumptions() -> None:
    h200, b200, ib, efa = load_gpu("h200"), load_gpu("b200"), load_fabric("ib-ndr400"), load_fabric("efa-v1")
    assert unconfirmed_assumptions([h200], [ib]) == ()
    said = {a.name: a for a in unconfirmed_assumptions([h200, b200, b200], [ib, efa], load_engine("vllm"))}
    assert said["b200-sxm.memory_gib"].value == "178.4"
    assert "efa-v1.dispatch_factor" in said
    assert "vllm-0.33.0.host_step_us" in said
    assert "vllm-0.33.0.gpu_memory_utilization" not in said
    assert not [name for name in said if name.startswith(("h200-sxm.", "ib-ndr400."))]
