"""The app's waits for more typing are for people; tests type all at once."""

from __future__ import annotations

import pytest

from console.tui.screens import frontier, problem


@pytest.fixture(autouse=True)
def _no_waits_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, "DETAIL_DELAY_S", 0.005)
    monkeypatch.setattr(problem, "TYPING_PAUSE_S", 0.01)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
