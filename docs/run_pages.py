"""Run every command of the documentation, and write what it prints below it. Run from anywhere.

python docs/run_pages.py [--check] [PAGE...]

Blocks of README.md and docs/**/*.md whose language is `sh` or `console` are run, all blocks of a page in one shell and one
empty folder, with a data folder of their own. In `console` blocks commands begin with `$ `; what follows is their standard
output and is rewritten here (or compared, with --check). `# exits 1` after a command states another exit status than 0.
A block that cannot run says why in its first line: ```sh no-run opens the terminal app. Its options are still checked.
Pages that use kubectl without starting a cluster of their own get an empty demo cluster.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVER = ROOT / "docs" / "command_server.py"
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")
STATUS = re.compile(r"#\s*exits (?P<status>\d+)")
CLUSTER = re.compile(r"\bkubectl\b|planner (cluster|diff|apply)\b|--cluster live")
# commands whose answer depends on their words alone, unless the page changes what is stored
PURE = re.compile(
    r"planner (recommend|why-not|estimate|experiments|explain|recipes list|profiles|models)\b(?!.*--save)",
    re.DOTALL,
)
STATE = re.compile(r"planner (calibrate|measurements import)|--profiles|cluster live|[>]")
PAGE_SECONDS = 900
BACKGROUND_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a block: its text, the exit status it states, the output shown below it."""

    line: int
    text: str
    status: int
    shown: tuple[str, ...] | None

    @property
    def background(self) -> bool:
        """Whether the shell goes on while it runs."""
        return self.text.rstrip().endswith("&")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `first` and `last` are the line numbers of its content, from 0."""

    page: Path
    first: int
    last: int
    language: str
    info: str
    commands: tuple[Command, ...]

    @property
    def reason(self) -> str | None:
        """Why it is not run; None when it is."""
        words = self.info.split(maxsplit=2)
        if len(words) < 2 or words[1] != "no-run":
            return None
        return words[2] if len(words) > 2 else ""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command with what it did."""

    block: Block
    command: Command
    status: int
    out: str
    err: str

    @property
    def printed(self) -> tuple[str, ...]:
        """Standard output as it stands on a page."""
        lines = [line.rstrip() for line in self.out.splitlines()]
        while lines and not lines[0]:
            lines.pop(0)
        while lines and not lines[-1]:
            lines.pop()
        return tuple(lines)


def pages() -> list[Path]:
    """All pages, the README first."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, of any language."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = number, fence["info"].strip()
            continue
        start, info = opened
        opened = None
        language = info.split()[0] if info else ""
        content = lines[start + 1 : number]
        commands = tuple(parse(content, start + 1, language))
        found.append(Block(page, start + 1, number, language, info, commands))
    return found


def parse(content: list[str], first: int, language: str) -> Iterator[Command]:
    """The commands of a block's lines."""
    index = 0
    while index < len(content):
        line = content[index]
        start = index
        index += 1
        if language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        elif language != "sh" or not line.strip() or line.lstrip().startswith("#"):
            continue
        text = [line]
        while text[-1].endswith("\\") and index < len(content):
            text.append(content[index])
            index += 1
        here = re.search(r"<<-?'?(\w+)'?", line)
        while here and text[-1] != here[1] and index < len(content):
            text.append(content[index])
            index += 1
        shown: list[str] | None = None
        if language == "console":
            shown = []
            while index < len(content) and not content[index].startswith("$ "):
                shown.append(content[index])
                index += 1
        stated = STATUS.search(text[-1])
        yield Command(
            first + start,
            "\n".join(text),
            int(stated["status"]) if stated else 0,
            tuple(shown) if shown is not None else None,
        )


def runnable(page: Path) -> list[Block]:
    """Blocks whose commands are run."""
    return [b for b in blocks(page) if b.language in ("sh", "console") and b.reason is None and b.commands]


@contextmanager
def command_server(folder: Path) -> Iterator[Path]:
    """A server of commands; yields the folder that holds its `planner`."""
    tools = folder / "bin"
    (tools / "answers").mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="docs-") as short:  # the path of a socket is short
        address = Path(short) / "s"
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("command_server", SERVER)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        module.write_shim(tools, address)
        with subprocess.Popen([sys.executable, SERVER, str(address)], stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None
                server.stdout.readline()
                yield tools
            finally:
                server.terminate()


def answers_of(todo: list[tuple[Block, Command]], cache: Path) -> dict[int, Path]:
    """Where the answers of commands are kept that another page may have asked already; by position."""
    if any(STATE.search(c.text) and not PURE.match(c.text) for _, c in todo):
        return {}
    pure = {n: c.text for n, (_, c) in enumerate(todo) if PURE.match(c.text) and not STATE.search(c.text)}
    return {n: cache / hashlib.sha256(text.encode()).hexdigest()[:24] for n, text in pure.items()}


def script(todo: list[tuple[Block, Command]], results: Path, cache: Path) -> str:
    """A shell script that runs the commands and leaves output, errors and statuses in `results`.

    A command that another page has asked already is answered from `cache`.
    """
    lines = ["set -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    kept = answers_of(todo, cache)
    for number, (_, command) in enumerate(todo):
        stem = shlex.quote(str(results / str(number)))
        known = kept.get(number)
        if known is not None and known.with_suffix(".rc").exists():
            lines += [f"cp {known}.{ending} {stem}.{ending}" for ending in ("out", "err", "rc")]
            continue
        lines += [
            f"echo {number} > {shlex.quote(str(results / 'at'))}",
            "{",
            command.text,
            f"}} > {stem}.out 2> {stem}.err",
            f"echo $? > {stem}.rc",
        ]
        if known is not None:
            lines += [f"cp {stem}.{ending} {known}.{ending}" for ending in ("out", "err", "rc")]
        if command.background:  # go on when it has said something
            lines += [
                f"for _ in $(seq {BACKGROUND_SECONDS * 10}); do [ -s {stem}.out ] && break; sleep 0.1; done"
            ]
    return "\n".join(lines) + "\n"


def run_page(page: Path, tools: Path, folder: Path) -> list[Ran]:
    """Run all commands of a page in `folder`. Raises AssertionError when the page does not end."""
    todo = [(b, c) for b in runnable(page) for c in b.commands]
    if not todo:
        return []
    results, work, data = (folder / n for n in ("results", "work", "data"))
    for new in (results, work, data):
        new.mkdir(parents=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WIDEPLAN_") and k != "COLUMNS"}
    environment = kept | {
        "XDG_DATA_HOME": str(data),
        "XDG_CONFIG_HOME": str(data),
        "HOME": str(data),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "KUBECONFIG": str(data / "none"),
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "DOCS_CPU_LOG": str(folder / "cpu"),
    }
    own = any("cluster demo" in c.text or "demo cluster" in c.text for _, c in todo)
    needs = not own and any(CLUSTER.search(c.text) and "--replay" not in c.text for _, c in todo)
    with (
        demo_cluster(data, environment) if needs else nothing(),
        subprocess.Popen(
            ["bash", "-c", script(todo, results, tools / "answers")],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ) as shell,
    ):
        try:
            shell.wait(PAGE_SECONDS)
        except subprocess.TimeoutExpired:
            at = todo[int((results / "at").read_text())][1]
            msg = f"{page}:{at.line + 1}: does not end: {at.text}"
            raise AssertionError(msg) from None
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGTERM)

    def read(number: int, ending: str) -> str:
        return (results / f"{number}.{ending}").read_text(encoding="utf-8")

    return [Ran(b, c, int(read(n, "rc")), read(n, "out"), read(n, "err")) for n, (b, c) in enumerate(todo)]


@contextmanager
def nothing() -> Iterator[None]:
    """No cluster."""
    yield


@contextmanager
def demo_cluster(data: Path, environment: dict[str, str]) -> Iterator[None]:
    """An empty demo cluster behind the page's KUBECONFIG."""
    file = Path(environment["KUBECONFIG"])
    demo = ["planner", "cluster", "demo", "--port", "0", "--kubeconfig", str(file)]
    with subprocess.Popen(
        demo, cwd=data, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as box:
        try:
            assert box.stdout is not None
            assert box.stdout.readline(), "the demo cluster did not start"
            yield
        finally:
            box.terminate()


def problems(ran: list[Ran]) -> list[str]:
    """What is wrong on a page that has been run: statuses, and outputs that are not what is shown."""
    wrong: list[str] = []
    for r in ran:
        where = f"{shown_path(r.block.page)}:{r.command.line + 1}: {r.command.text}"
        if r.status != r.command.status:
            wrong.append(f"{where}\n  exit status {r.status}, the page says {r.command.status}\n{r.err}")
        elif r.command.shown is not None and trimmed(r.command.shown) != r.printed:
            wrong.append(f"{where}\n  prints something else; run: python docs/run_pages.py")
    return wrong


def shown_path(page: Path) -> Path:
    """A page as it is named to people."""
    return page.relative_to(ROOT) if page.is_relative_to(ROOT) else page


def trimmed(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Lines without the empty ones at both ends."""
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return tuple(line.rstrip() for line in lines[start:end])


def rewrite(page: Path, ran: list[Ran]) -> bool:
    """Put the outputs into the page's console blocks; whether anything changed."""
    old = page.read_text(encoding="utf-8")
    lines = old.splitlines()
    for block in reversed([b for b in runnable(page) if b.language == "console"]):
        new: list[str] = []
        for r in (r for r in ran if r.block.first == block.first):
            if new and new[-1] and r.printed:
                new.append("")
            new += [f"$ {r.command.text}", *r.printed]
        lines[block.first : block.last] = new
    text = "\n".join(lines) + "\n"
    if text != old:
        page.write_text(text, encoding="utf-8")
    return text != old


def main(arguments: list[str]) -> int:
    """Run the pages named, or all; returns the exit status."""
    check = "--check" in arguments
    named = [Path(a).resolve() for a in arguments if not a.startswith("-")] or pages()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="docs-") as folder, command_server(Path(folder)) as tools:
        for number, page in enumerate(named):
            began = time.monotonic()
            ran = run_page(page, tools, Path(folder) / f"page{number}")
            if not ran:
                continue
            changed = not check and rewrite(page, ran)
            wrong = problems(ran) if check else [w for w in problems(ran) if "exit status" in w]
            failed += bool(wrong)
            note = ", rewritten" if changed else ""
            log = Path(folder) / f"page{number}" / "cpu"
            cpu = sum(map(float, log.read_text().split())) if log.exists() else 0.0
            taken = f"{time.monotonic() - began:.1f} s, {cpu:.1f} s of CPU"
            sys.stderr.write(f"{shown_path(page)}: {len(ran)} commands, {taken}{note}\n")
            sys.stderr.write("".join(f"{w}\n" for w in wrong))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
