"""What the screens look like; the numbers are made up so that only the layout can change these files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console.tui.records import Records
from console.tui.services import Services
from console.tui.settings import Settings
from tests.tui.harness import SIZES, before, press, sample_app, sample_services, text_of, until
from tests.views.simulation_samples import sample_result
from tests.views.store_samples import fill, results_file

SMALL, MIDDLE, LARGE = SIZES


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_frontier(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(sample_app(), run_before=before("j", "space"), terminal_size=size)


@pytest.mark.parametrize("size", [SMALL, MIDDLE], ids=lambda s: f"{s[0]}x{s[1]}")
def test_problem(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(sample_app(), run_before=before("2"), terminal_size=size)


def test_problem_with_mistakes(snap_compare: Any) -> None:
    keys = ("2", "down", "end", "backspace", "backspace", "down", "'33")
    assert snap_compare(sample_app(), run_before=before(*keys), terminal_size=MIDDLE)


def test_compare(snap_compare: Any) -> None:
    assert snap_compare(sample_app(), run_before=before("space", "j", "space", "c"), terminal_size=MIDDLE)


def test_targets(snap_compare: Any) -> None:
    assert snap_compare(sample_app(), run_before=before("s"), terminal_size=SMALL)


def test_palette(snap_compare: Any) -> None:
    assert snap_compare(sample_app(), run_before=before("colon", "'re"), terminal_size=SMALL)


def test_jump_mode(snap_compare: Any) -> None:
    assert snap_compare(sample_app(), run_before=before("ctrl+o"), terminal_size=SMALL)


def test_intervals_on_logarithmic_axes_coloured_by_width(snap_compare: Any) -> None:
    keys = ("l", "L", "g", "g", "i")
    assert snap_compare(sample_app(), run_before=before(*keys), terminal_size=MIDDLE)


@pytest.mark.parametrize("theme", ["wideplan-light", "high-contrast", "no-colour"])
def test_themes(snap_compare: Any, theme: str) -> None:
    app = sample_app(settings=Settings(theme=theme))
    assert snap_compare(app, run_before=before("space", "j"), terminal_size=MIDDLE)


@pytest.mark.parametrize("size", [SMALL, MIDDLE], ids=lambda s: f"{s[0]}x{s[1]}")
def test_cluster(snap_compare: Any, size: tuple[int, int]) -> None:
    async def shown(pilot: Any) -> None:
        await before("4")(pilot)
        await until(pilot, lambda: "per DP rank" in text_of(pilot.app))
        await press(pilot, "end")

    assert snap_compare(sample_app(), run_before=shown, terminal_size=size)


def record_services(folder: Path) -> Services:
    records = Records(fill(folder))
    records.import_measurements([results_file(folder)])
    runs = iter(range(1, 10))
    return sample_services(records=records, simulate=lambda *_: sample_result(next(runs)))


@pytest.mark.parametrize("size", [SMALL, MIDDLE], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize(
    ("name", "keys"),
    [("simulation", ("3", "r", "r")), ("studies", ("5", "space")), ("measurements", ("6", "j"))],
)
def test_records(
    snap_compare: Any, tmp_path: Path, name: str, keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    app = sample_app(services=record_services(tmp_path))
    assert snap_compare(app, run_before=before(*keys), terminal_size=size), name
