"""What the documentation says can be done: every command runs, every output is current, every link leads somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def load(name: str) -> ModuleType:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


runner = load("run_pages")
PAGES: list[Path] = runner.pages()
NAMES = [str(p.relative_to(ROOT)) for p in PAGES]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A `planner` that starts at once, for the shells of the pages."""
    with runner.command_server(tmp_path_factory.mktemp("docs")) as folder:
        yield folder


@pytest.mark.parametrize("page", [n for n, p in zip(NAMES, PAGES, strict=True) if runner.runnable(p)])
def test_every_command_of_a_page_runs_and_prints_what_is_shown(
    page: str, tools: Path, tmp_path: Path
) -> None:
    if "kubectl" in (ROOT / page).read_text() and shutil.which("kubectl", path=path_of_tools()) is None:
        pytest.skip("needs kubectl")
    ran = runner.run_page(ROOT / page, tools, tmp_path)
    assert ran
    assert runner.problems(ran) == []
    for r in ran:
        assert "Traceback" not in r.err, r.command.text


def path_of_tools() -> str:
    """Where a page's shell looks for programs."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("page", NAMES)
def test_blocks_say_what_they_are(page: str) -> None:
    for block in runner.blocks(ROOT / page):
        where = f"{page}:{block.first}"
        assert block.reason != "", f"{where}: no-run without a reason"
        lines = (ROOT / page).read_text().splitlines()[block.first : block.last]
        commands = [line for line in lines if re.match(r"(\$ )?planner [a-z]", line)]
        if commands and not page.endswith("cli.md"):
            assert block.language in ("sh", "console"), (
                f"{where}: commands in a block of no language: {commands[0]}"
            )


def words_after_planner(text: str) -> Iterator[list[str]]:
    """The words of every planner command in a command line."""
    flat = " ".join(text.replace("\\\n", " ").splitlines()[:1])
    for part in re.split(r"\|\||&&|[|;&]|\$\(", flat):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        while words and re.fullmatch(r"[A-Z_]+=.*|\.?/?\.?venv/bin/planner|sudo|time", words[0]):
            words = ["planner", *words[1:]] if words[0].endswith("planner") else words[1:]
        if words and words[0] in ("planner", "wideplan"):
            yield words[1:]


def options_of(command: Any) -> set[str]:
    """All spellings of a command's options."""
    return {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("-")} | {
        "-h",
        "--help",
    }


@pytest.mark.parametrize("page", NAMES)
def test_commands_and_options_exist(page: str) -> None:
    from planner.cli.main import COMMANDS

    cli = load("build_cli")
    for block in runner.blocks(ROOT / page):
        for command in block.commands:
            for words in words_after_planner(command.text):
                if not words or words[0].startswith("-"):
                    continue
                assert words[0] in COMMANDS, f"{page}:{command.line + 1}: {words[0]}"
                found = cli.command_of(words[0])
                rest = words[1:]
                while rest and rest[0] in getattr(found, "commands", {}):
                    found = found.commands[rest[0]]
                    rest = rest[1:]
                used = {w.split("=")[0] for w in rest if re.match(r"--?[a-zA-Z]", w)}
                assert used <= options_of(found), f"{page}:{command.line + 1}: {used - options_of(found)}"


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower().replace(" ", "-")
        found.add("".join(c for c in plain if c.isalnum() or c in "-_"))
    return found


@pytest.mark.parametrize("page", [*NAMES, "CHANGELOG.md", "recipes/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    file = ROOT / page
    if not file.exists():
        pytest.skip("not here yet")
    text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        found = (file.parent / target).resolve() if target else file
        assert found.exists(), f"{page}: {link}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{page}: {link}"


def test_every_page_is_reached_from_the_index() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md", ROOT / "docs" / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        todo += [
            (page.parent / link.partition("#")[0]).resolve()
            for link in LINK.findall(page.read_text())
            if link.partition("#")[0].endswith(".md") and ":" not in link
        ]
    assert [str(p.relative_to(ROOT)) for p in PAGES if p not in seen] == []


# --- the runner itself ---------------------------------------------------------------------------------------------


def ran_on(text: str, tools: Path, folder: Path) -> list[Any]:
    folder.mkdir(exist_ok=True)
    page = folder / "page.md"
    page.write_text(text)
    return list(runner.run_page(page, tools, folder / "run"))


def test_a_wrong_status_and_a_stale_output_are_found(tools: Path, tmp_path: Path) -> None:
    text = (
        "```sh\nplanner explain nonsense\nplanner explain nonsense # exits 2\n```\n"
        "```console\n$ planner explain 5\nsomething else\n```\n"
        "```sh no-run needs a GPU\nplanner explain nonsense\n```\n"
    )
    ran = ran_on(text, tools, tmp_path)
    assert [r.status for r in ran] == [2, 2, 0]
    wrong = runner.problems(ran)
    assert len(wrong) == 2
    assert "exit status 2, the page says 0" in wrong[0]
    assert "prints something else" in wrong[1]
    assert runner.rewrite(tmp_path / "page.md", ran)
    assert "  stopped before its budget" in (tmp_path / "page.md").read_text()
    again = ran_on((tmp_path / "page.md").read_text(), tools, tmp_path / "again")
    assert len(runner.problems([again[2]])) == 0


def test_folders_variables_pipes_and_failures_in_front_of_a_pipe(tools: Path, tmp_path: Path) -> None:
    text = (
        "```sh\nmkdir sub && cd sub\nexport NAME=tpot\nplanner explain $NAME > out.txt\ngrep -q 'unit: ms' out.txt\n"
        "planner explain nonsense | cat # exits 2\ncat > f <<'END'\na # b\nEND\ngrep -q 'a # b' f\n```\n"
    )
    ran = ran_on(text, tools, tmp_path)
    assert [r.status for r in ran] == [0, 0, 0, 0, 2, 0, 0]


# --- the Korean pages ------------------------------------------------------------------------------------------------


def test_the_korean_readme_has_the_commands_of_the_english_one() -> None:
    def commands(page: Path) -> list[str]:
        return [c.text for b in runner.blocks(page) for c in b.commands]

    def listed(page: Path) -> list[str]:
        table = re.findall(r"^\| (`planner .*?) \|", page.read_text(), re.MULTILINE)
        return [" ".join(re.findall(r"`([^`]+)`", row)) for row in table]

    english, korean = ROOT / "README.md", ROOT / "docs" / "ko" / "README.md"
    assert commands(korean) == commands(english)
    assert listed(korean) == listed(english)


@pytest.mark.parametrize("page", ["README.md", "explanation.md"])
def test_korean_pages_say_which_text_they_follow_and_are_korean(page: str) -> None:
    text = (ROOT / "docs" / "ko" / page).read_text()
    assert re.search(r"> .*\d{4}-\d{2}-\d{2}", text)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    hangul = sum("가" <= c <= "힣" for c in prose)
    assert hangul > 700


def test_the_korean_explanation_covers_every_english_page() -> None:
    text = (ROOT / "docs" / "ko" / "explanation.md").read_text()
    for page in (ROOT / "docs" / "explanation").glob("*.md"):
        assert f"../explanation/{page.name}" in text, page.name
