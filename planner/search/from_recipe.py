"""A recipe as a request; flags given beside it win."""

from __future__ import annotations

from planner.catalog.recipes import load_recipe
from planner.search.ask import Request


def with_recipe(name: str, flags: Request) -> Request:
    """The request of recipe `name` with every flag that was given laid over it."""
    return request_of(name, flags).overlaid(flags)


def request_of(name: str, flags: Request) -> Request:
    """The bare request of recipe `name`."""
    recipe = load_recipe(name, overlay=flags.profiles)
    shared, prefill, decode = recipe.pool, recipe.prefill_pool, recipe.decode_pool
    network = shared or decode
    return Request(
        name=recipe.id,
        model=recipe.model,
        gpu=shared.gpu if shared else None,
        gpus=shared.gpus if shared else None,
        node=shared.node if shared else None,
        fabric=network.fabric if network else None,
        prefill_gpu=prefill.gpu if prefill else None,
        prefill_gpus=prefill.gpus if prefill else None,
        decode_gpu=decode.gpu if decode else None,
        decode_gpus=decode.gpus if decode else None,
        isl=recipe.workload.isl,
        osl=recipe.workload.osl,
        prefix_hit=recipe.workload.prefix_hit,
        prefix_shared=recipe.workload.prefix_shared or None,
        ttft_ms=recipe.slo.ttft_ms,
        tpot_ms=recipe.slo.tpot_ms,
        tok_s_user=recipe.slo.tok_s_user,
        strategy=recipe.strategies[0] if len(recipe.strategies) == 1 else None,
        engine_version=recipe.engine_version,
        usd_per_gpu_hour=recipe.usd_per_gpu_hour,
    )
