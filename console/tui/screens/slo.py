"""Edit the targets and see at once what still passes."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Label, Static

from console.views.frontier import targets_effect
from console.views.points import PlanPoints
from console.views.problem_form import BY_KEY, TARGET_KEYS, check_targets, values_of_targets
from planner.domain.workload import SloTargets


class SloScreen(ModalScreen[SloTargets | None]):
    """Dismisses with the new targets, or None. Empty fields mean no limit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="targets.cancel"),
        Binding("enter", "apply", "Apply", id="targets.apply", priority=True),
        Binding("down", "app.focus_next", "Next", show=False, id="targets.next"),
        Binding("up", "app.focus_previous", "Previous", show=False, id="targets.previous"),
    ]
    help_text: ClassVar[str] = "Targets on the median. Write 2s or 2000; empty means no limit. Enter applies."

    def __init__(self, points: PlanPoints, slo: SloTargets) -> None:
        super().__init__()
        self._points = points
        self._slo = slo

    def compose(self) -> ComposeResult:
        """Three fields and their effect."""
        texts = values_of_targets(self._slo)
        with Vertical(id="slo-form", classes="panel") as panel:
            panel.border_title = "Targets"
            for key in TARGET_KEYS:
                with Horizontal(classes="field"):
                    yield Label(BY_KEY[key].label)
                    yield Input(value=texts[key], placeholder="no limit", id=f"target-{key}", compact=True)
                    yield Static("", classes="note", markup=False)
            yield Static("", id="slo-effect")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show the effect of the present targets."""
        self._update()

    @on(Input.Changed)
    def _update(self) -> None:
        slo, problems = self._read()
        for key in TARGET_KEYS:
            line = self.query_one(f"#target-{key}", Input).parent
            if line is not None:
                line.set_class(key in problems, "-wrong")
                line.query_one(".note", Static).update(problems.get(key, ""))
        effect = self.query_one("#slo-effect", Static)
        effect.update(
            targets_effect(self._points, slo) if slo is not None else Text("a target cannot be read")
        )

    def _read(self) -> tuple[SloTargets | None, dict[str, str]]:
        return check_targets({k: self.query_one(f"#target-{k}", Input).value for k in TARGET_KEYS})

    def action_apply(self) -> None:
        """Take over the targets if all can be read."""
        slo, _ = self._read()
        if slo is not None:
            self.dismiss(slo)
