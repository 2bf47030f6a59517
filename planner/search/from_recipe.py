"""A recipe as a request; flags given beside it win."""

from __future__ import annotations

from dataclasses import fields, replace

from planner.catalog.recipes import load_recipe
from planner.search.ask import Request


def with_recipe(name: str, flags: Request) -> Request:
    """The request of recipe `name` with every flag that was given laid over it."""
    given = {f.name: getattr(flags, f.name) for f in fields(flags) if getattr(flags, f.name) is not None}
    return replace(request_of(name, flags), **given)


def request_of(name: str, flags: Request) -> Request:
    """The bare request of recipe `name`."""
    recipe = load_recipe(name, overlay=flags.profiles)
    return Request(
        name=recipe.id,
        model=recipe.model,
        gpu=recipe.gpu,
        fabric=recipe.fabric,
        node=recipe.node,
        gpus=recipe.gpus,
        prefill_gpu=recipe.prefill_gpu,
        decode_gpu=recipe.decode_gpu,
        prefill_gpus=recipe.prefill_gpus,
        decode_gpus=recipe.decode_gpus,
        isl=recipe.workload.isl,
        osl=recipe.workload.osl,
        prefix_hit=recipe.workload.prefix_hit,
        ttft_ms=recipe.slo.ttft_ms,
        tpot_ms=recipe.slo.tpot_ms,
        tok_s_user=recipe.slo.tok_s_user,
        strategy=recipe.strategy,
        engine_version=recipe.engine_version,
        usd_per_gpu_hour=recipe.usd_per_gpu_hour,
    )
