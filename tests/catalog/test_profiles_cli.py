"""``planner profiles``: lists fit the page, every figure shows its source, checks report everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.catalog.hardware import list_fabrics, list_gpus, list_nodes, load_gpu
from planner.catalog.locate import data_root
from planner.cli.main import main
from planner.domain.errors import ExitCode


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["profiles", *args])
    out = capsys.readouterr()
    code = done.value.code
    return (code if isinstance(code, int) else 0), out.out, out.err


@pytest.mark.parametrize("kind", ["", "gpus", "fabrics", "clusters", "engines"])
def test_lists_fit_100_columns_and_name_everything(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    code, out, _ = run(capsys, "list", *([kind] if kind else []))
    assert code == ExitCode.OK
    assert max(len(line) for line in out.splitlines()) <= 100
    wanted = {"gpus": list_gpus(), "fabrics": list_fabrics(), "clusters": list_nodes()}
    for known in wanted if not kind else {kind} & set(wanted):
        assert all(name in out for name in wanted[known])


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list", "gpus", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "wideplan.profiles/v1")
    assert [g["id"] for g in document["gpus"]] == list(list_gpus())


@pytest.mark.parametrize("name", ["b200", "ib-ndr400", "eks-p5en", "vllm", "trtllm-1.3.0"])
def test_show_prints_every_source(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = run(capsys, "show", name)
    assert code == ExitCode.OK
    assert max(len(line) for line in out.splitlines()) <= 100
    _, text, _ = run(capsys, "show", name, "--json")
    profile = json.loads(text)["profile"]
    flat = " ".join(out.split())
    for figure, source in profile["sources"].items():
        assert f"{figure}:" in flat
        confirmed = "confirmed" if source["confirmed"] else "not confirmed"
        assert f"{source['source']}; {source['date']}; {source['method']}; {confirmed}" in flat


def test_show_says_what_is_not_confirmed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", "b200")
    assert "memory_gib: 178.4 (NOT CONFIRMED)" in " ".join(out.split())
    assert "gpu.unconfirmed_input" in out


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("show", "h300"), "profile.unknown"),
        (("list", "gpu"), "profiles.kind_unknown"),
        (("list", "gpus", "--profiles", "/nowhere"), "profiles.overlay_missing"),
    ],
)
def test_wrong_names_exit_2_with_a_fix(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: str
) -> None:
    exit_code, out, err = run(capsys, *args)
    assert (exit_code, out) == (ExitCode.USAGE, "")
    assert f"error[{code}]" in err
    assert "fix:" in err


def test_the_shipped_files_pass_their_own_check(capsys: pytest.CaptureFixture[str]) -> None:
    root = data_root()
    code, out, _ = run(capsys, "check", str(root / "profiles"), str(root / "recipes"), "--json")
    document = json.loads(out)
    assert (code, document["errors"]) == (ExitCode.OK, 0)
    kinds = {f["kind"] for f in document["files"]}
    assert kinds == {"gpus", "fabrics", "clusters", "engines", "recipes"}


def test_check_reports_all_findings_of_all_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (data_root() / "profiles" / "gpus" / "h100-sxm.yaml").read_text(encoding="utf-8")
    wrong = tmp_path / "h100.yaml"
    wrong.write_text(
        text.replace("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-SXM5-80GB")
        .replace("fp8: 1979", "fp8: 3958")
        .replace("memory_gib: 79.1", "memory_gib: 80"),
        encoding="utf-8",
    )
    broken = tmp_path / "broken.yaml"
    broken.write_text("id: x\nname: [\n", encoding="utf-8")
    code, out, _ = run(capsys, "check", str(wrong), str(broken), "--json")
    document = json.loads(out)
    found = [{i["code"] for i in f["findings"] if i["severity"] == "error"} for f in document["files"]]
    assert code == ExitCode.USAGE
    assert {"gpu.label_never_schedules", "gpu.sparse_peak", "gpu.memory_marketing"} <= found[0]
    assert found[1] == {"file.malformed"}
    assert all(i["where"].startswith(f"{wrong}:") for i in document["files"][0]["findings"])
    code, out, _ = run(capsys, "check", str(wrong), str(broken))
    assert code == ExitCode.USAGE
    assert "error[gpu.sparse_peak]" in out
    assert "2 files" in out


def test_overlay_is_shown_in_place_of_ours(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "gpus").mkdir()
    text = (data_root() / "profiles" / "gpus" / "h200-sxm.yaml").read_text(encoding="utf-8")
    (tmp_path / "gpus" / "h200-sxm.yaml").write_text(
        text.replace("usd_per_gpu_hour: 3.5", "usd_per_gpu_hour: 2.25"), encoding="utf-8"
    )
    code, out, _ = run(capsys, "show", "h200", "--profiles", str(tmp_path), "--json")
    assert code == ExitCode.OK
    assert json.loads(out)["profile"]["prices"][0]["usd_per_gpu_hour"] == 2.25
    assert load_gpu("h200").prices[0].usd_per_gpu_hour == 3.5


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("config.json", '{"model_type": "deepseek_v3", "hidden_size": 7168}', "profile.kind"),
        ("gpus/wrong-name.yaml", None, "profiles.id"),
        ("gpus/list.yaml", "- a\n- b\n", "input.wrong_type"),
    ],
)
def test_check_refuses_files_that_are_no_profiles(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str | None, code: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    shipped = data_root() / "profiles" / "gpus" / "h200-sxm.yaml"
    path.write_text(text if text is not None else shipped.read_text(encoding="utf-8"), encoding="utf-8")
    exit_code, out, _ = run(capsys, "check", str(path))
    assert exit_code == ExitCode.USAGE
    assert f"error[{code}]" in out


def test_an_empty_folder_is_not_a_pass(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "check", str(tmp_path))
    assert code == ExitCode.USAGE
    assert "error[profiles.nothing_to_check]" in err
