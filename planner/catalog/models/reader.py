"""From a config.json (file, folder or parsed object) to a ModelSpec."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from planner.catalog.models.quantization import read_quantization
from planner.catalog.models.registry import find_family
from planner.catalog.models.view import ConfigView
from planner.domain.errors import InputError, Issue, MissingDataError
from planner.domain.model import ModelSpec

CONFIG = "config.json"
QUANT_CONFIG = "hf_quant_config.json"
INDEX = "model.safetensors.index.json"
# Keys under which multimodal configs keep their language model.
TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config")
# The index counts vision towers and MTP layers, which the structure leaves out.
SIZE_TOLERANCE = 0.05
_MAX_BYTES = 64 * 1024 * 1024


def read_model(
    source: Path | Mapping[str, object],
    *,
    model_id: str,
    quant: Path | Mapping[str, object] | None = None,
    total_bytes: float | None = None,
    file: str | None = None,
) -> ModelSpec:
    """Read a config.json in the form Hugging Face repositories publish.

    `source`: the file, a folder that holds it, or the parsed object. `quant`: hf_quant_config.json, needed only
    when it does not lie beside the config. `total_bytes`: size of the weights (``metadata.total_size`` of the
    safetensors index, taken from the folder when there); a total that does not fit the structure is refused.
    `file`: what messages call a parsed object.
    Raises InputError with every missing key and every contradiction at once (``model.key-missing``,
    ``model.key-invalid``, ``model.architecture-unknown``, ``model.unsupported-structure``,
    ``model.quantization-unknown``, ``model.size-mismatch``) and MissingDataError ``model.file-missing``.
    """
    if isinstance(source, Path):
        folder, config_path = (source, source / CONFIG) if source.is_dir() else (source.parent, source)
        data = read_json(config_path)
        name = str(config_path)
        if config_path.name == CONFIG:
            beside = folder / QUANT_CONFIG
            quant = beside if quant is None and beside.is_file() else quant
            index = folder / INDEX
            total_bytes = read_total_size(index) if total_bytes is None and index.is_file() else total_bytes
    else:
        data, name = source, file or model_id
    quant_name, quant_data = "", None
    if isinstance(quant, Path):
        quant_name, quant_data = str(quant), read_json(quant)
    elif quant is not None:
        quant_name, quant_data = f"{model_id} ({QUANT_CONFIG})", quant
    view = ConfigView(data, file=name)
    separate = None if quant_data is None else view.other(quant_data, file=quant_name)
    spec = _assemble(view, model_id=model_id, separate=separate)
    if total_bytes is not None:
        _check_size(view, spec, total_bytes)
        view.finish()
    return spec


def _assemble(view: ConfigView, *, model_id: str, separate: ConfigView | None) -> ModelSpec:
    text = text_view(view)
    found = find_family(view, text)
    if found is None:
        view.finish()
        raise AssertionError  # find_family records a problem whenever it finds nothing
    family, architecture = found
    structure = family.build(text)
    vocab = text.integer("vocab_size")
    max_position = text.integer("max_position_embeddings", "seq_length", "max_sequence_length")
    view.finish()
    quantization = read_quantization(view, text, separate=separate, family=family, structure=structure)
    tied_in = text if text.has("tie_word_embeddings") else view
    tied = tied_in.flag("tie_word_embeddings", default=family.tied_by_default)
    view.finish()
    return ModelSpec(
        id=model_id,
        family=family.name,
        architecture=architecture,
        hidden=structure.hidden,
        vocab=vocab,
        max_position=max_position,
        layers=structure.groups(),
        quantization=quantization,
        tied_embeddings=tied,
        encoder=_has_encoder(view, architecture),
        mtp_layers=structure.mtp_layers,
        other_parameters=structure.other_parameters,
        notes="; ".join(structure.notes),
    )


def _has_encoder(view: ConfigView, architecture: str) -> bool:
    """Whether images or sound can come in: engines treat such models apart (no DBO, for one)."""
    return architecture.endswith("ForConditionalGeneration") or view.has("vision_config", "audio_config")


def text_view(view: ConfigView) -> ConfigView:
    """Return the language model's part of a config: nested under one of `TEXT_KEYS`, or the whole of it."""
    for key in TEXT_KEYS:
        if isinstance(view.raw(key), Mapping):
            nested = view.child(key)
            return text_view(nested) if key == "thinker_config" else nested
    return view


def read_json(path: Path) -> Mapping[str, object]:
    """Parse a JSON object as Hugging Face writes them (``Infinity`` occurs in real files).

    Raises MissingDataError ``model.file-missing``, InputError ``file.unreadable`` or ``file.malformed`` with line.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise _unusable(path, "file.unreadable", f"larger than {_MAX_BYTES >> 20} MiB")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise MissingDataError(
            Issue(
                code="model.file-missing",
                what=f"no file {path}",
                why="the structure of a model is read from its config.json",
                fix=f"put the repository's {CONFIG} there, or name another file or folder",
                where=str(path),
            )
        ) from None
    except OSError as e:
        raise _unusable(path, "file.unreadable", e.strerror or str(e)) from None
    except UnicodeDecodeError as e:
        raise _unusable(path, "file.unreadable", f"byte {e.start} is not UTF-8") from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as e:
        raise _unusable(path, "file.malformed", f"{e.msg} (line {e.lineno}, column {e.colno})") from None
    except (RecursionError, ValueError) as e:
        raise _unusable(path, "file.malformed", str(e)) from None
    if not isinstance(data, dict):
        raise _unusable(path, "file.malformed", "the file must hold one JSON object")
    return data


def _unusable(path: Path, code: str, why: str) -> InputError:
    return InputError(
        Issue(
            code=code,
            what=f"cannot read {path}",
            why=why,
            fix="fetch the file again from the model's repository",
            where=f"{path} @ $",
        )
    )


def read_total_size(index: Path) -> float | None:
    """``metadata.total_size`` of a safetensors index in bytes; None when it states none."""
    metadata = read_json(index).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    return float(size) if isinstance(size, int | float) and not isinstance(size, bool) and size > 0 else None


def _check_size(view: ConfigView, spec: ModelSpec, total_bytes: float) -> None:
    """The weights must be no less than the structure needs and no more than it explains with its MTP layers."""
    least = spec.weight_bytes * (1 - SIZE_TOLERANCE)
    most = (spec.weight_bytes + 2.0 * spec.mtp_parameters) * (1 + SIZE_TOLERANCE) + 4e9  # 4 GB: vision towers
    if not least <= total_bytes <= most:
        view.problem(
            "model.size-mismatch",
            what=f"the index says {total_bytes / 1e9:.1f} GB, the structure comes to {spec.weight_bytes / 1e9:.1f} GB",
            why=f"they must agree within {SIZE_TOLERANCE:.0%} (MTP layers and vision towers allowed for)",
            fix=f"check that {CONFIG}, {QUANT_CONFIG} and {INDEX} belong to one revision of one repository",
        )
