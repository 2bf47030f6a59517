"""``planner models``: list the catalogue, show one model, check a config.json."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.output import emit_json, print_error, print_table, stdout
from planner.domain.dtypes import KvDtype
from planner.domain.errors import ExitCode, InputError, Issue, MissingDataError

if TYPE_CHECKING:
    from planner.catalog.models import ModelEntry
    from planner.domain.model import ModelSpec

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Profiles = Annotated[
    Path | None, typer.Option("--profiles", help="Folder of your own profiles (models/*.yaml or *.json).")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.command("list")
def list_(
    pattern: Annotated[
        str, typer.Argument(help="Show only models whose id, alias or kind contains this.")
    ] = "",
    profiles: Profiles = None,
    json: Json = False,
) -> None:
    """List the models of the catalogue."""
    from planner.catalog.models import list_models

    every = list_models(overlay=profiles)
    entries = [e for e in every if _matches(e, pattern.lower())]
    if pattern and not entries:
        from planner.domain.errors import did_you_mean

        raise InputError(
            Issue(
                code="model.unknown",
                what=f"no model contains '{pattern}'",
                why=f"none of the {len(every)} ids, aliases and attention kinds does",
                fix=did_you_mean(pattern, [a for e in every for a in (e.id, *e.aliases)]),
            )
        )
    if json:
        emit_json("models", {"models": [asdict(e) for e in entries]})
        return
    rows = [
        (
            _fit(e.id.rsplit("/", 1)[-1] + ("" if e.confirmed else " *"), 42),
            f"{e.total_b:,.1f}",
            f"{e.active_b:,.1f}",
            _fit(e.attention, 15),
            _fit(e.precision, 13),
            f"{e.kv_bytes_per_token_bf16:,.0f}",
            _context(e.max_position),
        )
        for e in entries
    ]
    headers = ("model", "total B", "active", "attention", "precision", "KV B/tok", "ctx")
    print_table(headers, rows, right=(1, 2, 5, 6))
    stdout().print(
        f"{len(entries)} of {len(every)} models. KV bytes per token: bf16, growing part, all layers."
    )
    if any(not e.confirmed for e in entries):
        stdout().print("* not confirmed: written from memory, check against the published config.json.")


@app.command("show")
def show(
    name: Annotated[
        str, typer.Argument(help="Id, alias, config.json, folder, or an id in the local HF cache.")
    ],
    profiles: Profiles = None,
    json: Json = False,
) -> None:
    """Show a model's structure, sizes, KV bytes and the formulas behind them."""
    from planner.catalog.models import load_model

    _print_model(load_model(name, overlay=profiles), json=json)


@app.command("check")
def check(
    path: Annotated[
        Path, typer.Argument(help="A config.json, a folder that holds one, or a catalogue entry.")
    ],
    json: Json = False,
) -> None:
    """Read a config and print what was understood; every problem is named and the exit status is 2."""
    from planner.catalog.models.catalogue import read_any

    if not path.exists():
        raise MissingDataError(
            Issue(
                code="model.file-missing",
                what=f"no file or folder {path}",
                why="check reads a file; models of the catalogue are shown by 'planner models show'",
                fix="name a config.json or the folder that holds it",
                where=str(path),
            )
        )
    try:
        spec = read_any(path)
    except InputError as error:
        if not json:
            raise
        issues = [asdict(i) for i in error.issues]
        emit_json("model-check", {"file": str(path), "ok": False, "issues": issues, "model": None})
        print_error(error)
        raise typer.Exit(int(ExitCode.USAGE)) from None
    if json:
        emit_json("model-check", {"file": str(path), "ok": True, "issues": [], "model": _document(spec)})
    else:
        stdout().print(f"{path}: understood.\n")
        _print_model(spec, json=False)


# --- rendering ---


def _matches(entry: ModelEntry, pattern: str) -> bool:
    fields = (entry.id, *entry.aliases, entry.attention, entry.precision)
    return any(pattern in f.lower() for f in fields)


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _context(tokens: int) -> str:
    return f"{tokens // 1024:,}k" if tokens % 1024 == 0 and tokens < 1 << 20 else f"{tokens / (1 << 20):.3g}M"


def _document(spec: ModelSpec) -> dict[str, object]:
    from planner.catalog.models.describe import describe_layers, formulas

    return {
        "id": spec.id,
        "family": spec.family,
        "architecture": spec.architecture,
        "aliases": list(spec.aliases),
        "source": spec.source,
        "source_date": spec.source_date,
        "confirmed": spec.confirmed,
        "notes": spec.notes,
        "hidden": spec.hidden,
        "vocab": spec.vocab,
        "max_position": spec.max_position,
        "tied_embeddings": spec.tied_embeddings,
        "mtp_layers": spec.mtp_layers,
        "layers": [asdict(line) for line in describe_layers(spec)],
        "quantization": {k: v for k, v in asdict(spec.quantization).items() if v is not None},
        "parameters": {
            "total": spec.total_parameters,
            "active": spec.active_parameters,
            "active_mean": spec.mean_active_parameters,
            "routed_experts": spec.expert_parameters,
            "shared_experts": spec.shared_parameters,
            "attention": spec.attention_parameters,
            "dense_mlp": spec.dense_mlp_parameters,
            "router": spec.router_parameters,
            "embeddings": spec.embedding_parameters,
            "other": spec.other_parameters,
            "mtp": spec.mtp_parameters,
        },
        "weight_bytes": spec.weight_bytes,
        "kv_bytes_per_token": {k.value: spec.kv_bytes_per_token(k) for k in KvDtype},
        "fixed_state_bytes_per_seq": {k.value: spec.fixed_state_bytes(k) for k in KvDtype},
        "formulas": formulas(spec),
    }


def _print_model(spec: ModelSpec, *, json: bool) -> None:
    from planner.catalog.models.describe import describe_layers, formulas

    if json:
        emit_json("model", _document(spec))
        return
    out = stdout()
    out.print(f"{spec.id}   ({spec.architecture}, read as {spec.family})")
    if spec.source:
        out.print(f"source: {spec.source}" + (f", {spec.source_date}" if spec.source_date else ""))
    if not spec.confirmed:
        out.print("NOT CONFIRMED: check against the published config.json before relying on it.")
    if spec.notes:
        out.print(f"note: {spec.notes}")
    print_table(
        ("layers", "attention", "feed-forward", "attn M", "mlp M", "KV B/tok bf16", "fp8"),
        [
            (
                str(line.count),
                line.attention,
                line.mlp,
                f"{line.attention_parameters / 1e6:,.1f}",
                f"{line.mlp_parameters / 1e6:,.1f}",
                f"{line.kv_bytes_per_token_bf16:,.6g}",
                f"{line.kv_bytes_per_token_fp8:,.6g}",
            )
            for line in describe_layers(spec)
        ],
        right=(0, 3, 4, 5, 6),
    )
    q = spec.quantization
    parts = [
        ("routed experts", spec.expert_parameters, q.experts.value),
        ("shared experts", spec.shared_parameters, q.shared_experts.value),
        ("attention", spec.attention_parameters, _attention_formats(spec)),
        ("dense MLP", spec.dense_mlp_parameters, q.dense_mlp.value),
        (
            "embedding, head",
            spec.embedding_parameters,
            f"{q.embedding.value}, {(q.lm_head or q.embedding).value}",
        ),
        ("router, norms", spec.router_parameters + spec.other_parameters, "bf16"),
    ]
    print_table(
        ("part", "parameters B", "format"),
        [(name, f"{count / 1e9:,.3f}", fmt) for name, count, fmt in parts if count],
        right=(1,),
    )
    out.print(
        f"total {spec.total_parameters / 1e9:,.1f} B, active {spec.active_parameters / 1e9:,.1f} B "
        f"(embedding and head included), weights {spec.weight_bytes / 1e9:,.1f} GB ({q.label})"
    )
    if spec.mtp_layers:
        out.print(f"MTP: {spec.mtp_layers} layers, {spec.mtp_parameters / 1e9:,.1f} B more, not in the total")
    if q.kv_cache is not None:
        out.print(f"the checkpoint asks for a KV cache in {q.kv_cache.value}")
    for kind in KvDtype:
        out.print(
            f"KV {kind.value}: {spec.kv_bytes_per_token(kind):,.10g} B per token over all layers, "
            f"fixed {spec.fixed_state_bytes(kind):,.0f} B per sequence"
        )
    out.print(f"hidden {spec.hidden:,}, vocabulary {spec.vocab:,}, context {spec.max_position:,} tokens")
    out.print("\nformulas")
    for line in formulas(spec):
        out.print(f"  {line}")


def _attention_formats(spec: ModelSpec) -> str:
    used = [g.attention for g in spec.layers if g.attention is not None]
    q = spec.quantization
    names = dict.fromkeys(f.value for a in used for f in (q.of_projections(a), q.of_output(a)))
    return ", ".join(names)
