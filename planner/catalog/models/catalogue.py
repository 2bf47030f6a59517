"""The model catalogue: entries in profiles/models, an index to find them, the local Hugging Face cache behind it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from planner.catalog.locate import profile_dirs
from planner.catalog.models.reader import CONFIG, read_json, read_model
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean
from planner.domain.model import (
    CompressedAttention,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    ModelSpec,
)

INDEX_FILE = "index.json"
ENTRY_SUFFIXES = (".json", ".yaml", ".yml")
_REQUIRED = ("id", "source", "date", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One line of the catalogue. Sizes in 10^9 parameters; KV in bytes per token over all layers, unsharded."""

    id: str
    aliases: tuple[str, ...]
    file: str
    total_b: float
    active_b: float
    attention: str
    precision: str
    kv_bytes_per_token_bf16: float
    kv_bytes_per_token_fp8: float
    max_position: int
    experts: int
    confirmed: bool
    source: str


def slug(model_id: str) -> str:
    """File name of an entry without its suffix: ``deepseek-ai/DeepSeek-R1`` is ``deepseek-ai--deepseek-r1``."""
    return model_id.lower().replace("/", "--")


def attention_label(spec: ModelSpec) -> str:
    """Short name of the attention kinds, e.g. ``MLA``, ``GQA + sliding``, ``GQA + Mamba2``."""
    names: list[str] = []
    for group in spec.layers:
        a = group.attention
        if isinstance(a, MlaAttention):
            name = "MLA + DSA" if a.sparse else "MLA"
        elif isinstance(a, CompressedAttention):
            name = "window" if a.ratio is None else ("CSA" if a.indexer is not None else "HCA")
        elif isinstance(a, LinearAttention):
            name = {"gdn": "GDN", "kda": "KDA", "mamba2": "Mamba2"}[a.kind.value]
        elif isinstance(a, GqaAttention):
            name = "GQA"
            if a.window is not None:
                name = "chunked" if a.chunked else "sliding"
            elif a.sparse_tokens is not None:
                name = "MSA"
        else:
            continue
        if name not in names:
            names.append(name)
    order = [
        "GQA",
        "MSA",
        "MLA",
        "MLA + DSA",
        "CSA",
        "HCA",
        "window",
        "sliding",
        "chunked",
        "GDN",
        "KDA",
        "Mamba2",
    ]
    return " + ".join(sorted(names, key=order.index)) or "none"


def entry_of(spec: ModelSpec, file: str) -> ModelEntry:
    """Summary of a model for the index and for lists."""
    return ModelEntry(
        id=spec.id,
        aliases=spec.aliases,
        file=file,
        total_b=round(spec.total_parameters / 1e9, 2),
        active_b=round(spec.active_parameters / 1e9, 2),
        attention=attention_label(spec),
        precision=spec.quantization.label,
        kv_bytes_per_token_bf16=spec.kv_bytes_per_token(KvDtype.BF16),
        kv_bytes_per_token_fp8=spec.kv_bytes_per_token(KvDtype.FP8),
        max_position=spec.max_position,
        experts=spec.moe.experts if spec.moe is not None else 0,
        confirmed=spec.confirmed,
        source=spec.source,
    )


# --- index ---


@cache
def _shipped_index() -> tuple[ModelEntry, ...]:
    data = read_json(profile_dirs("models")[0] / INDEX_FILE)
    rows = data.get("models")
    if not isinstance(rows, list):
        raise MissingDataError(
            Issue(
                code="data.missing",
                what=f"{INDEX_FILE} of the model catalogue is damaged",
                why="it must list the models",
                fix="reinstall wideplan",
            )
        )
    return tuple(ModelEntry(**{**r, "aliases": tuple(r["aliases"])}) for r in rows)


def build_index(folder: Path) -> str:
    """Text of the index over all entries of `folder`: what ``profiles/models/index.json`` must hold."""
    specs = [(f, read_entry(f)) for f in sorted(folder.glob("*.json")) if f.name != INDEX_FILE]
    rows = [asdict(entry_of(spec, f.name)) for f, spec in specs]
    lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    return '{"schema": "wideplan.model-index/v1", "models": [\n' + lines + "\n]}\n"


def list_models(*, overlay: Path | None = None) -> tuple[ModelEntry, ...]:
    """All models of the catalogue by id, from the index; an overlay's own entries replace those of equal id."""
    entries = {e.id: e for e in _shipped_index()}
    for file in _overlay_files(overlay):
        entry = entry_of(read_entry(file), str(file))
        entries[entry.id] = entry
    return tuple(sorted(entries.values(), key=lambda e: e.id.lower()))


def _overlay_files(overlay: Path | None) -> list[Path]:
    if overlay is None:
        return []
    folders = profile_dirs("models", overlay)
    if len(folders) == 1:
        return []
    return sorted(f for f in folders[0].iterdir() if f.suffix in ENTRY_SUFFIXES and f.name != INDEX_FILE)


# --- entries ---


def read_entry(path: Path) -> ModelSpec:
    """Read one catalogue entry: ``{id, aliases, source, date, confirmed, notes, config, quant_config, expected}``.

    `config` holds the keys of the model's config.json, `quant_config` those of its hf_quant_config.json.
    Raises InputError ``model.entry-invalid``, ``model.size-mismatch`` when the total differs from
    ``expected.total_parameters_b``, and the errors of `read_model`.
    """
    if path.suffix == ".json":
        data = read_json(path)
    else:
        from planner.catalog.documents import read_document

        data = read_document(path).data
    problems = _entry_problems(data, path)
    if problems:
        raise InputError(*problems)
    config, quant = data["config"], data.get("quant_config")
    assert isinstance(config, Mapping)  # noqa: S101 - checked by _entry_problems
    spec = read_model(
        config, model_id=str(data["id"]), quant=quant if isinstance(quant, Mapping) else None, file=f"{path}"
    )
    _check_expected(spec, data.get("expected"), path)
    aliases = data.get("aliases")
    return replace(
        spec,
        aliases=tuple(str(a) for a in aliases) if isinstance(aliases, list) else (),
        source=str(data["source"]),
        source_date=str(data["date"]),
        confirmed=bool(data.get("confirmed", True)),
        notes=str(data.get("notes", "")),
    )


def _check_expected(spec: ModelSpec, expected: object, path: Path) -> None:
    """The published total must come out of the structure, within 0.5 % or the last digit of one decimal."""
    total = expected.get("total_parameters_b") if isinstance(expected, Mapping) else None
    if not isinstance(total, int | float) or isinstance(total, bool):
        return
    counted = spec.total_parameters / 1e9
    if abs(counted - total) > max(0.005 * abs(total), 0.051):
        raise InputError(
            Issue(
                code="model.size-mismatch",
                what=f"the structure comes to {counted:,.1f} B parameters, the entry expects {total:,.1f} B",
                why="they must agree within 0.5 %, MTP layers and encoders left out",
                fix="correct the keys under 'config', or 'expected' when the published size was misread",
                where=f"{path} @ $.expected.total_parameters_b",
            )
        )


def read_any(path: Path) -> ModelSpec:
    """Read a config.json, a folder that holds one, or a catalogue entry (told apart by its ``config`` key)."""
    if path.is_file():
        if path.suffix in {".yaml", ".yml"}:
            return read_entry(path)
        if isinstance(read_json(path).get("config"), Mapping):
            return read_entry(path)
    return read_model(path, model_id=_id_of(path))


def _entry_problems(data: object, path: Path) -> list[Issue]:
    def issue(what: str, why: str) -> Issue:
        return Issue(
            code="model.entry-invalid",
            what=what,
            why=why,
            fix="write {id, source, date, config: {...keys of config.json...}}; a bare config.json is named directly",
            where=f"{path} @ $",
        )

    if not isinstance(data, Mapping):
        return [issue("the entry is not an object", "a model entry is an object")]
    out = [
        issue(f"missing key '{key}'", "every entry says what it is and where its figures come from")
        for key in _REQUIRED
        if data.get(key) in (None, "")
    ]
    out += [
        issue(f"'{key}' is not an object", f"'{key}' holds the keys of a published file")
        for key in ("config", "quant_config")
        if data.get(key) is not None and not isinstance(data[key], Mapping)
    ]
    return out


# --- loading ---


def load_model(name_or_path: str, *, overlay: Path | None = None) -> ModelSpec:
    """Find a model: an entry of `overlay`, a catalogue id or alias, a config file or folder, the local HF cache.

    Nothing is downloaded. Raises MissingDataError ``model.unknown`` (with the file that would supply it and close
    names), InputError for what the file holds (see `read_model`).
    """
    name = name_or_path.strip()
    if not name:
        raise InputError(
            Issue(
                code="model.unknown",
                what="empty model name",
                why="a plan needs a model",
                fix="planner models list",
                where="--model",
            )
        )
    own = [(f, read_entry(f)) for f in _overlay_files(overlay)]
    wanted = name.lower()
    for _, spec in own:
        if wanted == spec.id.lower() or wanted in (a.lower() for a in spec.aliases):
            return spec
    file = find_entry(name)
    if file is not None:
        return read_entry(file)
    path = Path(name).expanduser()
    if _looks_like_path(name, path):
        return read_any(path)
    cached = find_in_hub_cache(name)
    if cached is not None:
        return replace(read_model(cached, model_id=name), source=f"local Hugging Face cache, {cached}")
    known = [e.id for e in _shipped_index()] + [a for e in _shipped_index() for a in e.aliases]
    known += [n for _, spec in own for n in (spec.id, *spec.aliases)]
    raise MissingDataError(
        Issue(
            code="model.unknown",
            what=f"model '{name}'",
            why="it is not in the catalogue, not a file or folder here, and not in the local Hugging Face cache "
            f"({hub_cache()}); nothing is downloaded",
            fix=f"{did_you_mean(name, known)} Or {_fetch_hint(name)} and name that file",
            where="--model",
        )
    )


def _fetch_hint(name: str) -> str:
    if name.count("/") == 1:
        return f"fetch its {CONFIG} (hf download {name} {CONFIG})"
    return f"fetch the repository's {CONFIG}"


def find_entry(name: str) -> Path | None:
    """File of a shipped entry by id or alias, upper and lower case alike; None when there is none."""
    folder = profile_dirs("models")[0]
    wanted = name.lower()
    for entry in _shipped_index():
        if wanted == entry.id.lower() or wanted in entry.aliases:
            return folder / entry.file
    return None


def _looks_like_path(name: str, path: Path) -> bool:
    try:
        return path.exists() or name.endswith(".json") or name.startswith((".", "/", "~"))
    except OSError:  # name too long for the file system
        return False


def _id_of(path: Path) -> str:
    folder = path if path.is_dir() else path.parent
    return folder.resolve().name if path.is_dir() or path.name == CONFIG else path.stem


def hub_cache() -> Path:
    """Folder of the local Hugging Face cache: HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub."""
    if explicit := os.environ.get("HF_HUB_CACHE"):
        return Path(explicit).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    return Path("~/.cache/huggingface/hub").expanduser()


def find_in_hub_cache(model_id: str) -> Path | None:
    """Snapshot folder of `model_id` that holds a config.json: the ``main`` revision, else the newest one."""
    if model_id.count("/") != 1 or not all(model_id.split("/")) or ".." in model_id:
        return None
    repo = hub_cache() / f"models--{model_id.replace('/', '--')}"
    try:
        main = repo / "refs" / "main"
        if main.is_file():
            snapshot = repo / "snapshots" / main.read_text(encoding="utf-8").strip()
            if (snapshot / CONFIG).is_file():
                return snapshot
        found = [s for s in (repo / "snapshots").iterdir() if (s / CONFIG).is_file()]
    except (OSError, UnicodeDecodeError):
        return None
    return max(found, key=lambda s: (s.stat().st_mtime, s.name), default=None)
