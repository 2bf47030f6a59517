"""``planner profiles``: list the hardware and engine catalogue, show one profile with its sources, check files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.fit_operators import fit_operators
from planner.cli.output import emit_json, print_table, stdout
from planner.domain.errors import ExitCode, InputError, Issue, did_you_mean

if TYPE_CHECKING:
    from planner.catalog.profiles import Found
    from planner.domain.hardware import FabricProfile, GpuProfile, NodeShape
    from planner.domain.provenance import Source

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command("fit-operators")(fit_operators)

KINDS = ("gpus", "fabrics", "clusters", "engines")

Profiles = Annotated[
    Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help="gpus, fabrics, clusters or engines; all when left out.")] = "",
    profiles: Profiles = None,
    json: Json = False,
) -> None:
    """List the catalogue."""
    from planner.catalog.profiles import all_profiles
    from planner.catalog.wire import unstructure

    if kind and kind not in KINDS:
        raise InputError(
            Issue(
                code="profiles.kind_unknown",
                what=f"'{kind}' is no kind of profile",
                why=f"the catalogue has {', '.join(KINDS)}; models have a command of their own",
                fix=f"{did_you_mean(kind, KINDS)} For models: planner models list",
            )
        )
    kinds = (kind,) if kind else KINDS
    every = {k: all_profiles(k, overlay=profiles) for k in kinds}
    if json:
        emit_json("profiles", {k: [unstructure(f.profile) for f in found] for k, found in every.items()})
        return
    for k, found in every.items():
        headers, right, row = _LISTS[k]
        print_table(headers, [row(f.profile) for f in found], title=f"{len(found)} {k}", right=right)
        if k == "fabrics":
            _print_scale_up(profiles)
    stdout().print("* an unconfirmed figure is a planning input: see planner profiles show NAME")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Id or alias of a GPU, fabric, node shape or engine.")],
    profiles: Profiles = None,
    json: Json = False,
) -> None:
    """Show one profile: every figure with its source, date, method and whether it is confirmed."""
    from planner.catalog.profiles import find_profile, findings
    from planner.catalog.wire import unstructure

    found = find_profile(name, overlay=profiles)
    issues = findings(found, overlay=profiles)
    if json:
        emit_json(
            "profile",
            {
                "kind": found.kind,
                "profile": unstructure(found.profile),
                "findings": [_issue(i) for i in issues],
            },
        )
        return
    _print_profile(found)
    _print_findings(issues)


@app.command("check")
def check(
    files: Annotated[list[Path], typer.Argument(help="Profile or recipe files, or folders of them.")],
    profiles: Profiles = None,
    json: Json = False,
) -> None:
    """Check structure and plausibility of files; all findings are shown, exit 2 when one is an error."""
    from planner.catalog.findings import is_warning
    from planner.catalog.profiles import check_file, files_under

    paths = files_under(files)
    if not paths:
        raise InputError(
            Issue(
                code="profiles.nothing_to_check",
                what=f"no profile or recipe file in {', '.join(str(f) for f in files)}",
                why="profiles are .yaml, .yml or .json files in folders named by kind",
                fix=f"name files, or a folder holding {', '.join(KINDS)}",
            )
        )
    results = [(path, *check_file(path, overlay=profiles)) for path in paths]
    errors = sum(not is_warning(i) for _, _, issues in results for i in issues)
    warnings = sum(is_warning(i) for _, _, issues in results for i in issues)
    if json:
        emit_json(
            "profiles-check",
            {
                "errors": errors,
                "warnings": warnings,
                "files": [
                    {"file": str(path), "kind": kind, "findings": [_issue(i) for i in issues]}
                    for path, kind, issues in results
                ],
            },
        )
    else:
        for path, kind, issues in results:
            bad = sum(not is_warning(i) for i in issues)
            verdict = f"{bad} errors" if bad else "ok"
            stdout().print(f"{path} ({kind}): {verdict}", markup=False, soft_wrap=True)
            _print_findings(issues)
        stdout().print(f"{len(results)} files, {errors} errors, {warnings} warnings")
    if errors:
        raise typer.Exit(int(ExitCode.USAGE))


# --- lists ---


def _num(value: float | None) -> str:
    return "-" if value is None else f"{value:,.10g}"


def _star(value: str, source: Source | None) -> str:
    return value if source is None or source.confirmed else f"{value}*"


def _gpu_row(gpu: GpuProfile) -> Sequence[str]:
    from planner.domain.dtypes import ComputeDtype

    s = gpu.sources
    peaks = "/".join(_num(gpu.peak_tflops.get(d)) for d in ComputeDtype)
    up = gpu.scale_up
    price = f"{gpu.prices[0].usd_per_gpu_hour:.2f}" if gpu.prices else "-"
    return (
        gpu.id,
        _star(_num(gpu.memory_gib), s.get("memory_gib")),
        _star(_num(gpu.hbm_gbps), s.get("hbm_gbps")),
        _star(peaks, s.get("peak_tflops")),
        _star(f"{_num(up.aggregate_gbps)}/{_num(up.pairwise_gbps)} x{up.domain_gpus}", s.get("scale_up")),
        price,
        gpu.availability.value.replace("export-restricted", "restricted"),
    )


def _fabric_row(fabric: FabricProfile) -> Sequence[str]:
    s = fabric.sources
    return (
        fabric.id,
        fabric.kind.value,
        _star(_num(fabric.gbps_per_gpu), s.get("gbps_per_gpu")),
        _star(f"{fabric.effective_gbps:.1f}", s.get("achievable_fraction")),
        _star(_num(fabric.latency_us), s.get("latency_us")),
        "yes" if fabric.rdma else "no",
        "yes" if fabric.gpu_initiated else "no",
        _star(f"{fabric.dispatch_factor:g}/{fabric.combine_factor:g}", s.get("dispatch_factor")),
        fabric.provider.value,
    )


def _node_row(node: NodeShape) -> Sequence[str]:
    s = node.sources
    rdma = f"{node.rdma_resource.rpartition('/')[2]} x{node.rdma_count}" if node.rdma_resource else "-"
    return (
        node.id,
        f"{node.gpus_per_node}x {node.gpu}",
        _star(node.fabric, s.get("fabric")),
        rdma,
    )


def _engine_row(engine: Any) -> Sequence[str]:
    s = engine.sources
    tokens = "/".join(str(v) for v in engine.max_num_batched_tokens_by_gib.values())
    return (
        engine.id,
        _star(_num(engine.gpu_memory_utilization), s.get("gpu_memory_utilization")),
        _star(_num(engine.default_max_num_seqs), s.get("default_max_num_seqs")),
        _star(tokens, s.get("max_num_batched_tokens_by_gib")),
        _star(f"{engine.dbo_decode_threshold}/{engine.dbo_prefill_threshold}", s.get("dbo_decode_threshold")),
        _star(_num(engine.host_step_us), s.get("host_step_us")),
    )


_LISTS: dict[str, tuple[Sequence[str], Sequence[int], Any]] = {
    "gpus": (
        ("gpu", "GiB", "GB/s", "TFLOP/s bf16/fp8/fp4", "scale-up GB/s", "$/h", "status"),
        (1, 2, 3, 4, 5),
        _gpu_row,
    ),
    "fabrics": (
        ("fabric", "kind", "GB/s/GPU", "reached", "us", "RDMA", "IBGDA", "disp/comb", "cloud"),
        (2, 3, 4),
        _fabric_row,
    ),
    "clusters": (("node shape", "GPUs", "fabric", "RDMA per pod"), (), _node_row),
    "engines": (
        ("engine", "memory share", "max seqs", "batched tokens", "DBO from", "host us/step"),
        (1, 2, 5),
        _engine_row,
    ),
}


def _print_scale_up(profiles: Path | None) -> None:
    """Scale-up domains belong to GPUs; they are listed with the fabrics because that is where they are looked for."""
    from planner.catalog.profiles import all_profiles
    from planner.domain.hardware import GpuProfile

    domains: dict[tuple[str, str, str, str, int], list[str]] = {}
    for found in all_profiles("gpus", overlay=profiles):
        if isinstance(found.profile, GpuProfile):
            up = found.profile.scale_up
            key = (up.name, up.kind.value, _num(up.aggregate_gbps), _num(up.pairwise_gbps), up.domain_gpus)
            domains.setdefault(key, []).append(found.profile.id)
    print_table(
        ("scale-up domain", "kind", "GB/s", "per pair", "GPUs", "in"),
        [(*key[:4], str(key[4]), ", ".join(gpus)) for key, gpus in domains.items()],
        title=f"{len(domains)} scale-up domains (part of the GPU profiles)",
        right=(2, 3, 4),
    )


# --- one profile ---


def _print_profile(found: Found) -> None:
    from planner.catalog.wire import unstructure

    data = unstructure(found.profile)
    sources = data.pop("sources")
    out = stdout()
    origin = "shipped" if found.shipped else str(found.path)
    name = data.pop("name", None)
    out.print(f"{data.pop('id')}{f': {name}' if name else ''} ({found.kind}, {origin})", markup=False)
    notes = data.pop("notes", "")
    prices = data.pop("prices", [])
    for field, value in data.items():
        parts = {k.partition(".")[2]: src for k, src in sources.items() if k.partition(".")[0] == field}
        if value in (None, [], {}) and not parts:
            continue
        whole = parts.pop("", None)
        _print_figure(field, _shown(value), whole)
        for part, source in parts.items():
            _print_figure(f"{field}.{part}", _shown(_part(value, part)), source)
    if prices:
        print_table(
            ("$/GPU-hour", "tier", "source", "date"),
            [(f"{p['usd_per_gpu_hour']:.2f}", p["tier"], p["source"], p["date"]) for p in prices],
            title="Prices: dated inputs, the first is the default",
            right=(0,),
        )
    if notes:
        out.print(f"Notes: {notes}", markup=False)


def _print_figure(name: str, value: str, source: dict[str, Any] | None) -> None:
    """Print a figure, and below it where it comes from, when, how, and whether it is confirmed."""
    out = stdout()
    mark = "" if source is None or source["confirmed"] else "  (NOT CONFIRMED)"
    out.print(f"  {name}: {value}{mark}", markup=False)
    if source is not None:
        confirmed = "confirmed" if source["confirmed"] else "not confirmed"
        lines = [f"{source['source']}; {source['date']}; {source['method']}; {confirmed}"]
        lines += [source["note"]] if source["note"] else []
        for text in lines:
            out.print(fill(text, out.width, initial_indent=" " * 6, subsequent_indent=" " * 6), markup=False)


def _part(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_shown(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(_shown(v) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _num(value)
    return "-" if value is None else str(value)


# --- findings ---


def _issue(issue: Issue) -> dict[str, object]:
    from planner.catalog.findings import is_warning

    return {
        "code": issue.code,
        "severity": "warning" if is_warning(issue) else "error",
        "what": issue.what,
        "why": issue.why,
        "fix": issue.fix,
        "where": issue.where,
    }


def _print_findings(issues: Sequence[Issue]) -> None:
    from planner.catalog.findings import is_warning

    out = stdout()
    width = out.width

    def put(text: str, indent: int) -> None:
        pad = " " * indent
        wrapped = fill(
            text,
            width,
            initial_indent=pad,
            subsequent_indent=pad + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        out.print(wrapped, markup=False, soft_wrap=True)

    for issue in issues:
        severity = "warning" if is_warning(issue) else "error"
        where = f" ({issue.where})" if issue.where else ""
        put(f"{severity}[{issue.code}]: {issue.what}{where}", 2)
        if not issue.code.endswith(
            ".unconfirmed_input"
        ):  # one line each: there can be many, and the fix is one
            put(f"why: {issue.why}", 4)
            put(f"fix: {issue.fix}", 4)
    if any(i.code.endswith(".unconfirmed_input") for i in issues):
        put(
            "unconfirmed figures: measure them and overlay the profile with --profiles DIR, or accept them", 2
        )
