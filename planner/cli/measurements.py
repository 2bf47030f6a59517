"""`planner measurements`: benchmark results, imported, listed and exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.output import emit_json, print_table, stderr, stdout
from planner.domain.deployment import Role
from planner.domain.errors import InputError, Issue, MissingDataError

if TYPE_CHECKING:
    from planner.domain.measurement import Latency, Measurement
    from planner.measurements.draft import RoleDraft, Supplied

app = typer.Typer(no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Model = Annotated[str | None, typer.Option("--model", help="Model that was served.")]
Gpu = Annotated[str | None, typer.Option("--gpu", help="GPU type, e.g. H200.")]
Profiles = Annotated[
    Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
]
EngineVersion = Annotated[str | None, typer.Option("--engine-version", help="Engine version, e.g. 0.33.0.")]


@app.command("import")
def import_command(
    files: Annotated[list[Path], typer.Argument(help="Result files, or folders such as a bench sweep.")],
    model: Model = None,
    gpu: Gpu = None,
    engine: Annotated[str | None, typer.Option("--engine", help="vllm, sglang or trtllm.")] = None,
    engine_version: EngineVersion = None,
    aggregated: Annotated[
        str | None, typer.Option("--aggregated", help='Widths of the one pool, e.g. "2x(tp1,dp8,ep8)".')
    ] = None,
    prefill: Annotated[str | None, typer.Option("--prefill", help="Widths of the prefill role.")] = None,
    decode: Annotated[str | None, typer.Option("--decode", help="Widths of the decode role.")] = None,
    isl: Annotated[int | None, typer.Option("--isl", min=1, help="Prompt tokens per request.")] = None,
    osl: Annotated[int | None, typer.Option("--osl", min=1, help="Output tokens per request.")] = None,
    prefix_hit: Annotated[
        float | None, typer.Option("--prefix-hit", min=0.0, max=1.0, help="Share of prompt tokens in cache.")
    ] = None,
    concurrency: Annotated[
        float | None, typer.Option("--concurrency", min=1.0, help="Requests in flight over the deployment.")
    ] = None,
    request_rate: Annotated[
        float | None, typer.Option("--request-rate", min=0.0, help="Requests per second offered.")
    ] = None,
    dbo: Annotated[bool | None, typer.Option("--dbo/--no-dbo", help="Dual-batch overlap was on.")] = None,
    eplb: Annotated[
        bool | None, typer.Option("--eplb/--no-eplb", help="Expert load balancing was on.")
    ] = None,
    mtp: Annotated[
        int | None, typer.Option("--mtp", min=0, help="Draft tokens per step; 0 = no drafting.")
    ] = None,
    quantization: Annotated[
        str | None, typer.Option("--quantization", help="Weight format, e.g. fp8.")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Kept with every imported result.")] = "",
    override: Annotated[
        bool, typer.Option("--override", help="What you state wins over what a file says.")
    ] = False,
    skip_incomplete: Annotated[
        bool, typer.Option("--skip-incomplete", help="Import complete runs, list the others.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check, store nothing.")] = False,
    profiles: Profiles = None,
    json: Json = False,
) -> None:
    """Import benchmark results.

    Formats, found from the content: vllm bench serve and bench sweep, guidellm, aiperf, inference-perf, llm-d benchmark
    report 0.1 to 0.2.1, InferenceX, and our CSV. What a file does not say is stated with flags and applies to all files.
    """
    from planner.domain.measurement import MeasuredLoad
    from planner.measurements.draft import Supplied
    from planner.measurements.importing import import_files
    from planner.measurements.names import CatalogueNames
    from planner.storage.store import open_store

    load = None
    if concurrency is not None or request_rate is not None:
        load = MeasuredLoad(concurrency=concurrency, request_rate_per_s=request_rate)
    supplied = Supplied(
        model=model,
        gpu=gpu,
        engine=engine,
        engine_version=engine_version,
        roles=_roles(aggregated, prefill, decode),
        isl=isl,
        osl=osl,
        prefix_hit=prefix_hit,
        load=load,
        dbo=dbo,
        eplb=eplb,
        mtp=None if mtp is None else mtp > 0,
        draft_tokens=mtp or None,
        quantization=quantization,
        note=note,
        override=override,
    )
    names = CatalogueNames(profiles=profiles)
    if dry_run:
        _dry_run(files, supplied, names, skip_incomplete=skip_incomplete, json=json)
        return
    with open_store() as store:
        report = import_files(store, files, supplied=supplied, names=names, skip_incomplete=skip_incomplete)
    if json:
        emit_json(
            "measurements-import",
            {
                "new": report.new,
                "duplicates": report.duplicates,
                "measurements": [
                    {"hash": i.hash, "new": i.new, **_document(i.measurement)} for i in report.imported
                ],
                "skipped": [_issue(i) for i in report.skipped],
                "ignored": [str(p) for p in report.ignored],
            },
        )
        return
    out = stdout()
    out.print(f"{report.new} new, {report.duplicates} already known")
    flagged = sum(bool(i.measurement.flags) for i in report.imported)
    if flagged:
        out.print(f"{flagged} with flags: see planner measurements list")
    _warn_skipped(report.skipped, report.ignored)


@app.command("list")
def list_command(
    model: Model = None,
    gpu: Gpu = None,
    engine_version: EngineVersion = None,
    profiles: Profiles = None,
    json: Json = False,
) -> None:
    """List imported measurements, oldest first."""
    from planner.measurements.names import CatalogueNames
    from planner.storage.store import open_store

    names = CatalogueNames(profiles=profiles)
    with open_store() as store:
        found = store.measurements.list(
            model=names.model(model) if model else None,
            gpu=names.known_gpu(gpu) if gpu else None,
            engine_version=engine_version,
        )
    if json:
        emit_json(
            "measurements", {"measurements": [{"hash": s.hash, **_document(s.measurement)} for s in found]}
        )
        return
    if not found:
        stdout().print("no measurements; import some with planner measurements import FILE")
        return
    groups: dict[tuple[str, str, str], list[list[str]]] = {}
    for stored in found:
        m = stored.measurement
        key = (m.model, m.gpu, f"{m.engine.value} {m.engine_version}")
        groups.setdefault(key, []).append(_row(stored.hash, m))
    for key, rows in groups.items():
        print_table(
            ["id", "GPUs", "plan", "in/out", "load", "tok/s/GPU", "TPOT ms", "TTFT ms", "flags"],
            rows,
            title=", ".join(key),
            right=(1, 4, 5, 6, 7, 8),
        )
    stdout().print("tok/s/GPU: output, per GPU of the whole deployment. TPOT and TTFT: median, else mean.")


@app.command("show")
def show(
    reference: Annotated[str, typer.Argument(help="First digits of a measurement's id.")], json: Json = False
) -> None:
    """Show one measurement with its provenance."""
    from planner.storage.store import open_store

    with open_store() as store:
        found = store.measurements.get(reference)
    if json:
        emit_json("measurement", {"hash": found.hash, **_document(found.measurement)})
        return
    m = found.measurement
    out = stdout()
    out.print(f"[bold]{found.hash[:12]}[/bold]  {m.model}", highlight=False)
    for name, value in _details(m):
        out.print(f"  {name:<12}{value}", markup=False)


@app.command("export")
def export(
    references: Annotated[
        list[str] | None, typer.Argument(help="First digits of ids; all measurements when left out.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; stdout when left out.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The file as it was imported, instead of a report.")
    ] = False,
) -> None:
    """Write measurements as llm-d benchmark reports 0.2.1 (YAML, one document each)."""
    import sys

    from planner.measurements.report import to_report, to_yaml
    from planner.storage.store import open_store

    with open_store() as store:
        if references:
            found = tuple(store.measurements.get(r) for r in references)
        else:
            found = store.measurements.list()
        if not found:
            raise MissingDataError(_nothing_to_export())
        if raw:
            hashes = {s.measurement.origin.raw_sha256 for s in found}
            if len(hashes) > 1:
                raise InputError(_several_raw_files(len(hashes)))
            content = store.measurements.raw(hashes.pop()).content
        else:
            content = to_yaml([to_report(s.measurement, uid=s.hash) for s in found]).encode()
    if output is None:
        sys.stdout.buffer.write(content)
        return
    _write(output, content)
    stderr().print(f"wrote {output}", markup=False)


@app.command("delete")
def delete(
    references: Annotated[list[str], typer.Argument(help="First digits of the ids to delete.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete measurements; raw files go with their last measurement."""
    from planner.storage.store import open_store

    with open_store() as store:
        found = tuple(store.measurements.get(r) for r in references)
        if not yes:
            for s in found:
                stderr().print(f"{s.hash[:12]}  {s.measurement.model}  {s.measurement.label()}", markup=False)
            typer.confirm(f"Delete {len(found)} measurement(s)?", abort=True, err=True)
        count = store.measurements.delete([s.hash for s in found])
    stdout().print(f"deleted {count}")


# --- helpers ---


def _roles(aggregated: str | None, prefill: str | None, decode: str | None) -> tuple[RoleDraft, ...]:
    from planner.measurements.draft import parse_role

    given = [
        (flag, label, role)
        for flag, label, role in (
            ("--aggregated", aggregated, Role.AGGREGATED),
            ("--prefill", prefill, Role.PREFILL),
            ("--decode", decode, Role.DECODE),
        )
        if label is not None
    ]
    if aggregated is not None and len(given) > 1:
        raise InputError(
            Issue(
                code="measurement.widths",
                what="--aggregated together with --prefill or --decode",
                why="a deployment has one pool or two roles",
                fix="keep one of the two",
                where="--aggregated",
            )
        )
    roles: list[RoleDraft] = []
    issues: list[Issue] = []
    for flag, label, role in given:
        parsed = parse_role(label, role)
        if parsed is None:
            issues.append(
                Issue(
                    code="measurement.widths",
                    what=f"'{label}'",
                    why="widths are written as groups x (tp, dp, ep), e.g. 2x(tp1,dp8,ep8)",
                    fix=f'{flag} "1x(tp1,dp16,ep16)"',
                    where=flag,
                )
            )
        else:
            roles.append(parsed)
    if issues:
        raise InputError(*issues)
    return tuple(roles)


def _dry_run(files: list[Path], supplied: Supplied, names: Any, *, skip_incomplete: bool, json: bool) -> None:
    from planner.measurements.importing import read_files
    from planner.storage.measured import measurement_hash

    read, ignored = read_files(files, supplied=supplied, names=names, skip_incomplete=skip_incomplete)
    found = [(measurement_hash(m), m) for f in read for m in f.measurements]
    skipped = tuple(i for f in read for i in f.skipped)
    if json:
        emit_json(
            "measurements-import",
            {
                "dry_run": True,
                "measurements": [{"hash": h, **_document(m)} for h, m in found],
                "skipped": [_issue(i) for i in skipped],
                "ignored": [str(p) for p in ignored],
            },
        )
        return
    stdout().print(f"{len(found)} measurement(s) could be imported; nothing was stored")
    _warn_skipped(skipped, ignored)


def _warn_skipped(skipped: tuple[Issue, ...], ignored: tuple[Path, ...]) -> None:
    err = stderr()
    for issue in skipped:
        err.print(f"skipped: {issue.what} ({issue.where}); {issue.fix}", markup=False)
    for path in ignored:
        err.print(f"ignored: {path} is no benchmark result", markup=False)


def _document(m: Measurement) -> dict[str, Any]:
    from planner.storage.codec import CONVERTER

    document: dict[str, Any] = CONVERTER.unstructure(m)
    return document


def _issue(issue: Issue) -> dict[str, str | None]:
    return {
        "code": issue.code,
        "what": issue.what,
        "why": issue.why,
        "fix": issue.fix,
        "where": issue.where,
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _load(m: Measurement) -> str:
    if m.load.concurrency is not None:
        return f"{m.load.concurrency:g}"
    return f"{m.load.request_rate_per_s:g}/s" if m.load.request_rate_per_s is not None else "unbounded"


def _row(digest: str, m: Measurement) -> list[str]:
    r = m.result
    return [
        digest[:8],
        str(m.gpus),
        m.label(),
        f"{m.workload.isl}/{m.workload.osl}",
        _load(m),
        _number(r.output_tok_s_per_gpu),
        _number(r.tpot.typical_ms),
        _number(r.ttft.typical_ms),
        str(len(m.flags)) if m.flags else "",
    ]


def _latency(latency: Latency) -> str:
    parts = (
        ("mean", latency.mean_ms),
        ("p50", latency.p50_ms),
        ("p90", latency.p90_ms),
        ("p95", latency.p95_ms),
        ("p99", latency.p99_ms),
    )
    return ", ".join(f"{n} {v:.4g} ms" for n, v in parts if v is not None)


def _switch(value: bool | None) -> str:
    return "unknown" if value is None else "on" if value else "off"


def _details(m: Measurement) -> list[tuple[str, str]]:
    r, s, o = m.result, m.settings, m.origin
    lines = [
        ("deployment", f"{m.label()} on {m.gpus}x {', '.join(dict.fromkeys(x.gpu for x in m.roles))}"),
        ("engine", f"{m.engine.value} {m.engine_version}"),
        ("traffic", f"{m.workload.isl} in / {m.workload.osl} out, prefix hit {m.workload.prefix_hit:g}"),
        ("load", _load(m)),
        ("settings", f"DBO {_switch(s.dbo)}, EPLB {_switch(s.eplb)}, MTP {_switch(s.mtp)}"),
        ("output", f"{_number(r.output_tok_s_per_gpu)} tok/s per GPU of the whole deployment"),
        ("input", f"{_number(r.input_tok_s_per_gpu)} tok/s per GPU of the whole deployment"),
    ]
    for name, latency in (("TTFT", r.ttft), ("TPOT", r.tpot), ("ITL", r.itl), ("E2E", r.e2e)):
        if latency.known:
            lines.append((name, _latency(latency)))
    if r.completed is not None:
        lines.append(("requests", f"{r.completed} completed, {r.failed or 0} failed"))
    lines += [("flag", f.value) for f in m.flags]
    lines.append(("source", f"{o.format.value} {o.file} {o.position}".rstrip()))
    if o.measured_at is not None:
        lines.append(("measured", o.measured_at.isoformat()))
    if o.supplied:
        lines.append(("supplied", ", ".join(f"{k} {v}" for k, v in o.supplied.items())))
    if o.note:
        lines.append(("note", o.note))
    lines.append(("raw file", f"sha256 {o.raw_sha256}"))
    return lines


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as e:
        raise InputError(
            Issue(
                code="output.unwritable",
                what=f"{path} cannot be written",
                why=e.strerror or str(e),
                fix="name a file in a folder that exists and that you may write to",
                where="--output",
            )
        ) from e


def _nothing_to_export() -> Issue:
    return Issue(
        code="measurement.none_stored",
        what="there are no measurements",
        why="nothing was imported yet",
        fix="planner measurements import FILE",
    )


def _several_raw_files(count: int) -> Issue:
    return Issue(
        code="measurement.several_raw_files",
        what=f"the measurements come from {count} files",
        why="--raw writes one file as it was imported",
        fix="name measurements of one file",
        where="--raw",
    )
