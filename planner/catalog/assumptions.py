"""Unconfirmed figures of the hardware and engine a plan depends on, as assumptions to tell the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.domain.engine import EngineProfile
from planner.domain.hardware import FabricKind, FabricProfile, GpuProfile
from planner.domain.problem import Assumption
from planner.domain.provenance import Source

_GPU_INPUTS = ("memory_gib", "hbm_gbps", "peak_tflops", "scale_up")
_FABRIC_INPUTS = (
    "gbps_per_gpu",
    "achievable_fraction",
    "latency_us",
    "gpu_initiated",
    "dispatch_factor",
    "combine_factor",
)


def unconfirmed_assumptions(
    gpus: Iterable[GpuProfile], fabrics: Iterable[FabricProfile], engine: EngineProfile | None = None
) -> tuple[Assumption, ...]:
    """Return one assumption per unconfirmed planning input, named ``<profile id>.<field>``, without repeats.

    Node labels and sizes are left out: they do not change predictions, only manifests.
    """
    found: dict[str, Assumption] = {}
    for gpu in gpus:
        _collect(found, gpu.id, gpu, gpu.sources, _GPU_INPUTS)
    for fabric in fabrics:
        if fabric.kind is not FabricKind.NONE:
            _collect(found, fabric.id, fabric, fabric.sources, _FABRIC_INPUTS)
    if engine is not None:
        _collect(found, engine.id, engine, engine.sources, tuple(engine.sources))
    return tuple(found.values())


def _collect(
    found: dict[str, Assumption],
    owner: str,
    profile: object,
    sources: Mapping[str, Source],
    inputs: tuple[str, ...],
) -> None:
    for key, source in sources.items():
        field = key.partition(".")[0]
        name = f"{owner}.{field}"
        if field in inputs and not source.confirmed and name not in found:
            note = f" ({source.note})" if source.note else ""
            found[name] = Assumption(
                name=name,
                value=_text(getattr(profile, field)),
                why=f"not confirmed: {source.source}{note}",
                flag="--profiles",
            )


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v:g}" for k, v in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}"
    aggregate = getattr(value, "aggregate_gbps", None)
    return f"{aggregate:g} GB/s" if aggregate is not None else str(value)
