"""`planner encoder`: whether a vision encoder deserves GPUs of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli import options as o
from planner.cli.output import emit_json, print_lines, print_table, stdout
from planner.domain.errors import InputError, Issue

if TYPE_CHECKING:
    from planner.domain.provenance import Estimate

SUPPORT = (
    "Supported today: vLLM has a reference connector for a separate encoder (--ec-transfer-config; its example proxy is "
    "stable for one encoder, one prefill and one decode instance), SGLang --encoder-only and --language-only, llm-d's "
    "routing sidecar --ec-connector. Inside the engine, vLLM's --mm-encoder-tp-mode data avoids splitting the encoder."
)


def encoder(
    plan: Annotated[str, typer.Argument(help="A saved plan, or a recipe (its recommended plan).")],
    images_per_request: Annotated[
        float | None, typer.Option("--images-per-request", help="Mean number of images in a prompt.")
    ] = None,
    image: Annotated[
        str, typer.Option("--image", help="Size of an image, WIDTHxHEIGHT pixels.")
    ] = "1024x1024",
    rate: Annotated[
        float | None, typer.Option("--rate", help="Requests per second. Default: what the plan serves.")
    ] = None,
    encoder_gpu: Annotated[
        str | None, typer.Option("--encoder-gpu", help="GPU type of the pool. Default: the plan's.")
    ] = None,
    profiles: o.Profiles = None,
    json: o.Json = False,
) -> None:
    """Size a separate vision-encoder pool and compare it with encoding beside prefill.

    Analytic and unmeasured: the interval spans a prior of 15 to 60 % of the GPU's bf16 peak. For models with an encoder.
    """
    width, height, per_request = _checked(images_per_request, image, rate)
    from planner.catalog.encoders import load_encoder
    from planner.catalog.hardware import load_fabric, load_gpu
    from planner.catalog.models import load_model
    from planner.cli.simulation_inputs import load
    from planner.domain.deployment import Role
    from planner.perf.encoder import EFFICIENCY, UTILISATION, Images, size_encoder
    from planner.search.price import price_plan

    path = Path(plan)
    if path.suffix not in {".yaml", ".yml", ".json"} and not path.is_file():
        # a recipe: refuse its model before its plan is worked out
        from planner.search.ask import Request
        from planner.search.from_recipe import with_recipe

        asked = with_recipe(plan, Request(profiles=profiles)).model
        if asked is not None:
            load_encoder(load_model(asked, overlay=profiles), overlay=profiles)
    chosen = load(plan, profiles)
    model = load_model(chosen.model, overlay=profiles)
    profile = load_encoder(model, overlay=profiles)
    tokens = profile.tokens(width, height)
    if tokens * per_request > chosen.workload.isl:
        raise InputError(
            Issue(
                code="encoder.isl",
                what=f"{per_request:g} images of {tokens:,} tokens in prompts of {chosen.workload.isl:,}",
                why="the plan's prompts must hold the images' tokens, or prefill is planned for too little",
                fix=f"a plan with --isl {int(tokens * per_request) + 500} or more, or smaller images",
            )
        )
    role = chosen.role(Role.PREFILL) or chosen.roles[0]
    evaluation = price_plan(chosen, concurrency=None, profiles=profiles, usd=None).evaluation
    step = next(s for s in evaluation.steps if s.role is role.role)
    per_s = evaluation.requests_per_s if rate is None else rate
    gpu = load_gpu(role.gpu, overlay=profiles)
    pool_gpu = gpu if encoder_gpu is None else load_gpu(encoder_gpu, overlay=profiles)
    sizing = size_encoder(
        profile,
        Images(rate_per_s=per_s, per_request=per_request, width_px=width, height_px=height),
        role=role,
        gpu=gpu,
        encoder_gpu=pool_gpu,
        fabric=load_fabric(chosen.fabric, overlay=profiles),
        step_ms=step.total_ms,
        decoder_hidden=model.hidden,
        lockstep=model.moe is not None,
    )
    unconfirmed = [name for name, source in profile.sources.items() if not source.confirmed]
    if json:
        from planner.catalog.wire import unstructure

        emit_json(
            "encoder",
            {
                "plan": chosen.label(),
                "model": model.id,
                "encoder": profile.id,
                "rate_per_s": per_s,
                "images_per_request": per_request,
                "image_px": [width, height],
                "role": role.role.value,
                "encoder_gpu": pool_gpu.id,
                "efficiency_prior": unstructure(EFFICIENCY),
                "sizing": unstructure(sizing),
                "separate_pool_pays": sizing.pays,
                "unconfirmed": unconfirmed,
                "measured": False,
            },
        )
        return
    out = stdout()
    out.print(f"{chosen.label()}  {model.id}", style="bold", markup=False)
    print_lines(
        f"{profile.name}: {sizing.tokens_per_image:,} tokens and {sizing.tflop_per_image:.2f} TFLOP per image of {width} x "
        f"{height} pixels, {sizing.weights_gib:.1f} GiB of weights; {per_s:,.3g} requests/s with {per_request:g} images each"
    )
    print_lines(
        f"one image takes {_range(sizing.image_ms, 1)} ms on {pool_gpu.name} (prior: {EFFICIENCY.low:.0%} to {EFFICIENCY.high:.0%} "
        f"of its bf16 peak, not measured)"
    )
    print_lines(
        f"{sizing.images_per_rank_step:.3g} images per {role.role.value} rank and step of {step.total_ms:,.0f} ms: with "
        f"{role.parallelism.dp} ranks in lockstep a step waits for {sizing.wait_factor:.1f} times the mean work"
    )
    print_table(
        ("encoder", "GPUs it needs", "share of steps", "added to TTFT, ms", "transfer, ms"),
        [
            (
                f"beside {role.role.value}", f"{_range(sizing.beside_gpus, 1)} more",
                _range(sizing.beside_share, 1, percent=True), _range(sizing.beside_ms, 0), "-",
            ),
            (
                f"apart, {pool_gpu.id}", f"{_range(sizing.apart_gpus, 0)}", "-",
                _range(sizing.apart_ms, 0), f"{sizing.transfer_ms:.1f}",
            ),
        ],
        right=range(1, 5),
        title=f"\nGPUs at {UTILISATION:.0%} busy; {role.role.value} has {role.gpus}",
    )  # fmt: skip
    print_lines(_verdict(sizing.pays, sizing.apart_gpus), indent=0)
    if per_s > evaluation.requests_per_s * 1.001:
        print_lines(
            f"note: the plan serves {evaluation.requests_per_s:,.3g} requests/s; at {per_s:,.3g} it needs more groups, with or "
            "without an encoder pool.",
            indent=0,
        )
    for name in unconfirmed:
        print_lines(f"note: {profile.id}.{name} is not confirmed: {profile.sources[name].note}", indent=0)
    print_lines(
        "Analytic and unmeasured; video, audio and repeated images (an embedding cache) are left out.",
        indent=0,
    )
    print_lines(SUPPORT, indent=0)


def _checked(images_per_request: float | None, image: str, rate: float | None) -> tuple[int, int, float]:
    """Width, height, images per request. Raises `InputError` with all that is wrong."""
    issues = []
    found = re.fullmatch(r"(\d{1,5})[xX](\d{1,5})", image)
    if found is None or not all(28 <= int(x) <= 16_384 for x in found.groups()):
        issues.append(
            Issue(
                code="encoder.image",
                what=f"'{image}' is not the size of an image",
                why="expected WIDTHxHEIGHT, 28 to 16,384 pixels each",
                fix="--image 1024x1024",
                where="--image",
            )
        )
    if images_per_request is None or not 0.0 < images_per_request <= 1000.0:
        issues.append(
            Issue(
                code="encoder.images",
                what="how many images a request has is not stated"
                if images_per_request is None
                else f"{images_per_request:g} images per request",
                why="it decides what the encoder costs, and only your traffic knows it",
                fix="--images-per-request 2",
                where="--images-per-request",
            )
        )
    if rate is not None and not 0.0 < rate <= 1e6:
        issues.append(
            Issue(
                code="encoder.rate",
                what=f"{rate:g} requests per second",
                why="a positive rate is needed",
                fix="--rate 2",
                where="--rate",
            )
        )
    if issues or found is None or images_per_request is None:
        raise InputError(*issues)
    return int(found[1]), int(found[2]), images_per_request


def _range(e: Estimate, digits: int, *, percent: bool = False) -> str:
    unit = "%" if percent else ""
    value, low, high = (100.0 * x if percent else x for x in (e.value, e.low, e.high))
    if f"{low:.{digits}f}" == f"{high:.{digits}f}":
        return f"{value:,.{digits}f}{unit}"
    return f"{value:,.{digits}f}{unit} [{low:,.{digits}f}-{high:,.{digits}f}]"


def _verdict(pays: bool | None, apart: Estimate) -> str:
    if pays is None:
        return f"It depends on the encoder's efficiency: measure one image on your GPU first. A pool would need {_range(apart, 0)} GPUs."
    if pays:
        return f"Disaggregate the encoder: {_range(apart, 0)} GPUs of its own take less than it costs beside the language model."
    return "Leave the encoder where it is: a pool of its own takes more GPUs than it frees at this load."
