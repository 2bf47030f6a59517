"""The real program in a real terminal: it starts, every screen opens, it leaves the terminal as it was, on kill too."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TMUX = shutil.which("tmux")
pytestmark = pytest.mark.skipif(TMUX is None, reason="needs tmux")
LIMIT_S = 90.0  # a loaded machine; nothing here measures time


class Terminal:
    """A tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self.socket = f"wideplan-{uuid.uuid4().hex[:8]}"
        self.environment = {
            **os.environ,
            "WIDEPLAN_DATABASE_URL": f"sqlite:///{folder / 'w.db'}",
            "KUBECONFIG": str(folder / "no-kubeconfig"),
            "XDG_CONFIG_HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "PS1": "$ ",
        }
        self.run("new-session", "-d", "-x", "120", "-y", "36", "sh")

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [TMUX or "tmux", "-L", self.socket, "-f", "/dev/null", *arguments],
            capture_output=True, text=True, check=True, env=self.environment,
        )  # fmt: skip
        return done.stdout

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def text(self) -> str:
        return self.run("capture-pane", "-p")

    def until(self, done: Callable[[str], bool]) -> str:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            text = self.text()
            if done(text):
                return text
            time.sleep(0.05)
        raise AssertionError(self.text())

    def start(self, *arguments: str) -> None:
        self.keys(f"{sys.executable} -m planner.cli.main tui {' '.join(arguments)}; echo status $?", "Enter")

    def restored(self) -> bool:
        """Whether the shell is back on the normal screen with echo, without mouse reporting."""
        flags = self.run("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").split()
        if flags != ["0", "0", "1"]:
            return False
        self.keys("echo al''ive", "Enter")
        self.until(lambda t: any(line.endswith("alive") and "''" not in line for line in t.splitlines()))
        return True


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.run("kill-server")


def test_every_screen_opens_and_quitting_restores_the_terminal(terminal: Terminal) -> None:
    terminal.start("gpt-oss-120b-h200x8")
    terminal.until(lambda t: "ranked under the targets" in t)
    for key, sign in (("3", "no run yet"), ("4", "cannot be read"), ("5", "no study yet"), ("6", "no measurement yet"),
                      ("2", "ready: ctrl+r asks")):  # fmt: skip
        terminal.keys(key)
        terminal.until(lambda t, sign=sign: sign in t)  # type: ignore[misc]
    terminal.keys("Escape")
    time.sleep(0.5)
    terminal.keys("1")
    terminal.until(lambda t: "ranked under the targets" in t)
    terminal.run("resize-window", "-x", "80", "-y", "24")
    terminal.until(lambda t: max(len(line) for line in t.splitlines()) <= 80 and "ranked under" in t)
    terminal.keys("q")
    terminal.until(lambda t: "status 0" in t)
    assert terminal.restored()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(terminal: Terminal, sent: signal.Signals) -> None:
    terminal.start("gpt-oss-120b-h200x8")
    terminal.until(lambda t: "ranked under the targets" in t)
    pane = int(terminal.run("display-message", "-p", "#{pane_pid}"))
    children = Path(f"/proc/{pane}/task/{pane}/children").read_text(encoding="ascii").split()
    os.kill(int(children[0]), sent)
    terminal.until(lambda t: f"status {128 + sent}" in t)
    assert terminal.restored()


def test_without_a_terminal_it_says_what_to_do_instead(terminal: Terminal) -> None:
    terminal.keys(f"{sys.executable} -m planner.cli.main tui | cat; echo done", "Enter")
    text = terminal.until(lambda t: "\ndone" in t)
    assert "tui.no-terminal" in text
    assert "planner recommend" in text


def test_mistakes_are_named_before_the_screen_changes(terminal: Terminal) -> None:
    terminal.start("--theme", "hihg-contrast")
    text = terminal.until(lambda t: "status 2" in t)
    assert "high-contrast" in text
    assert "Traceback" not in text
