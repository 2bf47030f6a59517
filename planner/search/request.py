"""What a user asked, and the checks of its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, TypeVar

from planner.domain.deployment import Speculation, Strategy
from planner.domain.dtypes import KvDtype
from planner.domain.errors import InputError, Issue, MissingDataError, PlannerError
from planner.domain.model import ModelSpec

MAX_GPUS: Final = 10_000
MAX_DRAFT_TOKENS: Final = 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked, before checking; None means not said. Names equal the flags of ``planner recommend``."""

    model: str | None = None
    gpu: str | None = None
    fabric: str | None = None
    node: str | None = None
    gpus: int | None = None
    prefill_gpu: str | None = None
    decode_gpu: str | None = None
    prefill_gpus: int | None = None
    decode_gpus: int | None = None
    isl: int | None = None
    osl: int | None = None
    prefix_hit: float | None = None
    prefix_shared: bool | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    tok_s_user: float | None = None
    strategy: Strategy | None = None
    kv_dtype: KvDtype | None = None
    engine_version: str | None = None
    usd_per_gpu_hour: float | None = None
    dbo: bool | None = None
    eplb: bool | None = None
    mtp: int | None = None
    mtp_acceptance: float | None = None
    calibration: bool | None = None
    name: str | None = None
    profiles: Path | None = None

    def overlaid(self, flags: Request) -> Request:
        """This request with every flag that was given laid over it."""
        given = {f.name: getattr(flags, f.name) for f in fields(flags) if getattr(flags, f.name) is not None}
        return replace(self, **given)


class Collector:
    """Runs loaders and keeps their issues, so that one run names all mistakes."""

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.missing: list[Issue] = []

    def load(self, loader: Callable[[], T]) -> T | None:
        """What `loader` returns, or None with its issues kept."""
        try:
            return loader()
        except InputError as error:
            self.issues.extend(error.issues)
        except PlannerError as error:
            self.missing.extend(error.issues)
        return None

    def add(self, code: str, what: str, why: str, fix: str, where: str) -> None:
        """Keep one mistake."""
        self.issues.append(Issue(code=code, what=what, why=why, fix=fix, where=where))

    def stop_if_any(self) -> None:
        """Raise everything kept: MissingDataError when only data is missing, otherwise InputError."""
        if self.issues or self.missing:
            if not self.issues:
                raise MissingDataError(*self.missing)
            raise InputError(*self.issues, *self.missing)


def check_numbers(request: Request, found: Collector) -> None:
    """Keep every number that is out of range and every pair of flags that contradict each other in `found`."""
    for name, value in (
        ("gpus", request.gpus),
        ("prefill-gpus", request.prefill_gpus),
        ("decode-gpus", request.decode_gpus),
        ("isl", request.isl),
        ("osl", request.osl),
        ("mtp", request.mtp),
    ):
        if value is not None and value <= 0:
            noun = "GPUs" if name.endswith("gpus") else "tokens"
            found.add(
                f"{name}.not-positive", f"--{name} {value}", f"a plan needs a positive number of {noun}",
                f"give --{name} a number of {noun} above 0", f"--{name}",
            )  # fmt: skip
    for name in ("gpus", "prefill-gpus", "decode-gpus"):
        gpus = getattr(request, name.replace("-", "_"))
        if gpus is not None and gpus > MAX_GPUS:
            found.add(
                "gpus.too-many", f"--{name} {gpus}", f"one plan covers at most {MAX_GPUS:,} GPUs",
                "plan a part of the fleet and repeat it", f"--{name}",
            )  # fmt: skip
    for name, rate in (
        ("ttft-ms", request.ttft_ms),
        ("tpot-ms", request.tpot_ms),
        ("tok-s-user", request.tok_s_user),
        ("usd-per-gpu-hour", request.usd_per_gpu_hour),
    ):
        if rate is not None and not (rate > 0.0 and math.isfinite(rate)):
            found.add(
                f"{name}.not-positive", f"--{name} {rate:g}", "a target or price must be a finite number above 0",
                f"give --{name} a positive number or leave it out", f"--{name}",
            )  # fmt: skip
    if request.prefix_hit is not None and not 0.0 <= request.prefix_hit < 1.0:
        found.add(
            "prefix-hit.range", f"--prefix-hit {request.prefix_hit:g}", "it is the share of prompt tokens found in cache",
            "give a value from 0 to below 1", "--prefix-hit",
        )  # fmt: skip
    split = request.prefill_gpu or request.decode_gpu or request.prefill_gpus or request.decode_gpus
    if split and request.strategy is Strategy.AGGREGATED:
        found.add(
            "flags.conflict", "--strategy aggregated with --prefill-gpu/--decode-gpu",
            "an aggregated plan has one role on one GPU type", "drop the split flags or the strategy", "--strategy",
        )  # fmt: skip
    if split and request.gpu is not None:
        found.add(
            "flags.conflict", "--gpu with --prefill-gpu/--decode-gpu", "each role's GPU would be said twice",
            "use --gpu with --gpus, or all of --prefill-gpu --prefill-gpus --decode-gpu --decode-gpus", "--gpu",
        )  # fmt: skip


def speculation_of(request: Request, model: ModelSpec) -> Speculation | None:
    """The drafting asked for. Raises InputError ``mtp.*`` naming everything that is wrong with it."""
    if not request.mtp:
        return None
    issues = []
    if model.mtp_layers == 0:
        issues.append(
            Issue(
                code="mtp.absent",
                what=f"--mtp {request.mtp}",
                why=f"{model.id} has no multi-token-prediction layers",
                fix="leave --mtp out",
                where="--mtp",
            )
        )
    if request.mtp > MAX_DRAFT_TOKENS:
        issues.append(
            Issue(
                code="mtp.too-many",
                what=f"--mtp {request.mtp}",
                why=f"more than {MAX_DRAFT_TOKENS} drafted tokens per step never pay and are not modelled",
                fix="give --mtp 1 to 3",
                where="--mtp",
            )
        )
    if request.mtp_acceptance is None or not 0.0 < request.mtp_acceptance <= 1.0:
        issues.append(
            Issue(
                code="mtp.acceptance",
                what=f"--mtp {request.mtp} with "
                + (
                    "no acceptance"
                    if request.mtp_acceptance is None
                    else f"acceptance {request.mtp_acceptance:g}"
                ),
                why="the gain depends on how often a drafted token is accepted, which only your traffic can tell",
                fix="give --mtp-acceptance from 0 to 1 (vLLM logs it; published runs see 0.6 to 0.9 for the first token)",
                where="--mtp-acceptance",
            )
        )
    if issues:
        raise InputError(*issues)
    return Speculation(draft_tokens=request.mtp, acceptance=float(request.mtp_acceptance or 0.0))
