"""Load the vision encoder of a model."""

from __future__ import annotations

from pathlib import Path

from planner.catalog.lookup import iter_files, load_file
from planner.domain.encoder import EncoderProfile
from planner.domain.errors import InputError, Issue, MissingDataError
from planner.domain.model import ModelSpec


def load_encoder(model: ModelSpec, *, overlay: Path | None = None) -> EncoderProfile:
    """The encoder of `model`.

    Raises InputError ``model.no_encoder`` for a text model and MissingDataError ``model.encoder_unknown`` when the model
    has an encoder that is in no file of ``profiles/encoders``.
    """
    if not model.encoder:
        raise InputError(
            Issue(
                code="model.no_encoder",
                what=f"{model.id} has no encoder",
                why="it reads text only, so there is nothing to disaggregate before prefill",
                fix="a multimodal model, such as Qwen/Qwen3-VL-235B-A22B-Instruct",
            )
        )
    known: list[str] = []
    for path in iter_files("encoders", overlay=overlay):
        profile = load_file(path, EncoderProfile)
        if model.id in profile.models:
            return profile
        known += profile.models
    raise MissingDataError(
        Issue(
            code="model.encoder_unknown",
            what=f"the size of {model.id}'s encoder is not known",
            why="its config in the catalogue holds the decoder only; known are " + ", ".join(sorted(known)),
            fix="write encoders/NAME.yaml with layers, widths and patch size (see profiles/encoders) and pass --profiles DIR",
        )
    )
