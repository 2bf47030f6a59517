"""Sizing of a separate vision encoder, against figures that can be worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from planner.catalog.encoders import load_encoder
from planner.catalog.hardware import load_fabric, load_gpu
from planner.catalog.lookup import iter_files, load_file
from planner.catalog.models import load_model
from planner.cli.main import main
from planner.domain.deployment import All2AllBackend, Parallelism, Role, RolePlan
from planner.domain.dtypes import ComputeDtype, KvDtype
from planner.domain.encoder import EncoderProfile
from planner.domain.errors import InputError, MissingDataError
from planner.perf.encoder import (
    EFFICIENCY,
    UTILISATION,
    EncoderSizing,
    Images,
    expected_maximum,
    size_encoder,
)

VL = "Qwen/Qwen3-VL-235B-A22B-Instruct"


def sized(
    *, rate: float, dp: int = 8, tp: int = 1, step_ms: float = 500.0, lockstep: bool = True
) -> EncoderSizing:
    """Two images of 1024 x 1024 per request on H200."""
    model = load_model(VL)
    role = RolePlan(
        role=Role.PREFILL,
        groups=1,
        parallelism=Parallelism(tp=tp, dp=dp, expert_parallel=True),
        gpu="h200-sxm",
        node="generic-h200-sxm",
        max_num_seqs=256,
        max_num_batched_tokens=16384,
        kv_dtype=KvDtype.BF16,
        all2all=All2AllBackend.DEEPEP_HIGH_THROUGHPUT,
    )
    gpu = load_gpu("h200-sxm")
    return size_encoder(
        load_encoder(model),
        Images(rate_per_s=rate, per_request=2.0, width_px=1024, height_px=1024),
        role=role,
        gpu=gpu,
        encoder_gpu=gpu,
        fabric=load_fabric("ib-ndr400"),
        step_ms=step_ms,
        decoder_hidden=model.hidden,
        lockstep=lockstep,
    )


def test_an_image_becomes_the_tokens_and_operations_of_its_patches() -> None:
    e = load_encoder(load_model(VL))
    # 1024 / 16 = 64 patches a side, 2 x 2 of them in a token
    assert e.patches(1024, 1024) == 64 * 64
    assert e.tokens(1024, 1024) == 1024
    assert e.tokens(1025, 1024) == 33 * 32  # sides round up to whole tokens
    n, h, i = 4096, 1152, 4304
    layers = 27 * (2 * n * (4 * h * h + 2 * h * i) + 4 * n * n * h)
    mergers = 4 * 2 * 1024 * ((4 * h) ** 2 + 4 * h * 4096)
    assert e.flops(1024, 1024, decoder_hidden=4096) == pytest.approx(layers + mergers)
    assert e.output_bytes(1024, 1024, decoder_hidden=4096) == 2 * 1024 * 4096 * 4


def test_the_largest_of_poisson_counts() -> None:
    assert expected_maximum(1, 3.0) == pytest.approx(3.0)
    assert expected_maximum(8, 0.0) == 0.0
    # few images: almost always one rank alone
    assert expected_maximum(16, 1e-4) / 1e-4 == pytest.approx(16.0, rel=0.01)
    rng = np.random.default_rng(0)
    drawn = rng.poisson(2.0, (200_000, 8)).max(axis=1).mean()
    assert expected_maximum(8, 2.0) == pytest.approx(drawn, rel=0.01)
    assert expected_maximum(8, 400.0) / 400.0 < 1.1


def test_a_pool_of_its_own_does_the_work_at_its_utilisation() -> None:
    s = sized(rate=40.0)
    gpu = load_gpu("h200-sxm")
    image_s = s.tflop_per_image / (gpu.peak(ComputeDtype.BF16) * EFFICIENCY.value)
    assert s.image_ms.value == pytest.approx(image_s * 1e3)
    assert s.image_ms.low == pytest.approx(image_s * 1e3 * EFFICIENCY.value / EFFICIENCY.high)
    assert s.apart_gpus.value == math.ceil(40.0 * 2 * image_s / UTILISATION)
    assert s.apart_gpus.low <= s.apart_gpus.value <= s.apart_gpus.high


def test_without_lockstep_beside_and_apart_differ_by_whole_gpus_only() -> None:
    s = sized(rate=40.0, lockstep=False)
    assert s.wait_factor == pytest.approx(1.0)
    assert s.apart_gpus.value == math.ceil(s.beside_gpus.value - 1e-9)


def test_lockstep_makes_wide_groups_wait_and_a_pool_pay() -> None:
    narrow, wide = sized(rate=20.0, dp=1, step_ms=100.0), sized(rate=20.0, dp=32, step_ms=100.0)
    assert narrow.wait_factor == pytest.approx(1.0)
    assert wide.wait_factor > 8.0
    assert wide.beside_gpus.value > 4.0 * narrow.beside_gpus.value
    assert wide.pays is True
    assert narrow.pays is False  # the same work, rounded up


def test_little_traffic_leaves_the_encoder_where_it_is() -> None:
    s = sized(rate=0.01)
    assert s.apart_gpus.value == 1.0
    assert s.pays is False


def test_tensor_parallel_ranks_share_an_image() -> None:
    assert sized(rate=5.0, tp=4).beside_ms.value == pytest.approx(sized(rate=5.0, tp=1).beside_ms.value / 4.0)


def test_every_encoder_names_models_of_the_catalogue_and_sources() -> None:
    seen: set[str] = set()
    for path in iter_files("encoders"):
        e = load_file(path, EncoderProfile)
        for model in e.models:
            assert load_model(model).encoder, model
            assert model not in seen
            seen.add(model)
        for name in (
            "layers",
            "hidden",
            "attention",
            "intermediate",
            "patch_px",
            "merged_patches",
            "outputs",
        ):
            assert e.sources[name].source
        assert math.isqrt(e.merged_patches) ** 2 == e.merged_patches
    assert len(seen) >= 15


def test_text_models_and_unknown_encoders_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        load_encoder(load_model("deepseek-ai/DeepSeek-R1"))
    assert caught.value.issues[0].code == "model.no_encoder"
    with pytest.raises(MissingDataError) as missing:
        load_encoder(replace(load_model(VL), id="someone/Other-VL"))
    assert missing.value.issues[0].code == "model.encoder_unknown"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    status = 0
    try:
        main(["encoder", *arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_command_answers_and_says_that_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("qwen3.5-397b-b200x8", "--images-per-request", "2", "--image", "768x512")
    status, out, err = run(capsys, *arguments, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert document["schema"] == "wideplan.encoder/v1"
    assert document["measured"] is False
    assert document["sizing"]["tokens_per_image"] == 24 * 16
    assert document["sizing"]["apart_gpus"]["low"] <= document["sizing"]["apart_gpus"]["high"]
    status, out, _ = run(capsys, *arguments, "--rate", "900")
    assert status == 0
    assert "unmeasured" in out
    assert "it needs more groups" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("qwen3.5-397b-b200x8",), "encoder.images"),
        (("qwen3.5-397b-b200x8", "--images-per-request", "-1"), "encoder.images"),
        (("qwen3.5-397b-b200x8", "--images-per-request", "2", "--image", "big"), "encoder.image"),
        (("qwen3.5-397b-b200x8", "--images-per-request", "2", "--rate", "0"), "encoder.rate"),
        (("qwen3.5-397b-b200x8", "--images-per-request", "900"), "encoder.isl"),
        (("gpt-oss-120b-h200x8", "--images-per-request", "2"), "model.no_encoder"),
    ],
)
def test_mistakes_are_named_with_a_fix(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert f"error[{code}]" in err
    assert "Traceback" not in err
