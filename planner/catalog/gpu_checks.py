"""Plausibility checks of GPU profiles: the mistakes found in public tools, each with its own code.

=========================  ==========================================================================================
gpu.sparse_peak            a peak with structured sparsity where a dense one is meant (2x, e.g. L40S fp8 1466)
gpu.superchip_figure       a figure of a two-GPU superchip where one of its GPUs is meant (GB200 at 13,400 GB/s)
gpu.memory_units           GB, GiB and MiB mixed up
gpu.memory_marketing       the size on the box where the size the runtime sees is meant
gpu.hbm_bandwidth          memory bandwidth beyond the architecture's memory
gpu.bandwidth_units        TB/s where GB/s is meant
gpu.bidirectional_link     both directions of a link added up
gpu.link_topology          pairwise and aggregate scale-up bandwidth that contradict each other
gpu.label_never_schedules  a node label GPU feature discovery never writes
gpu.resource               a Kubernetes resource of another vendor
gpu.differs_from_catalogue same part as a shipped profile, another figure (MI325X at 288 GB)
gpu.resembles_catalogue    the same for a part that only looks alike (warning)
gpu.unconfirmed_input      an unconfirmed figure that plans depend on (warning)
gpu.announced              a part that cannot be bought yet (warning)
gpu.value_range, gpu.source_missing, gpu.source_unknown, gpu.source_date, gpu.label_form: see `findings`
=========================  ==========================================================================================
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Final

from planner.catalog.documents import Document
from planner.catalog.findings import Report
from planner.catalog.locate import data_root
from planner.catalog.lookup import iter_files, normalise
from planner.catalog.wire import load
from planner.domain.dtypes import ComputeDtype
from planner.domain.errors import Issue
from planner.domain.hardware import Availability, GpuProfile, ScaleUpKind, Vendor

FIGURES: Final = (
    "memory_gib", "memory_marketing_gb", "hbm_gbps", "peak_tflops", "scale_up", "pcie_gbps", "kubernetes",
)  # fmt: skip
_OPTIONAL_FIGURES: Final = ("sm_count", "tdp_w", "compute_capability", "mamf_fraction")
_INPUTS: Final = ("memory_gib", "hbm_gbps", "peak_tflops", "scale_up")

# Dense fp8 doubles bf16 and dense fp4 doubles fp8, with these exceptions (vendor tables, 2026-08).
_MAX_RATIO: Final = 2.2
_MAX_FP8_OVER_BF16: Final = {"Rubin": 4.5}
_MAX_FP4_OVER_FP8: Final = {"Blackwell Ultra": 3.4}
# Dense bf16 TFLOP/s per SM or CU: operations per clock times the highest boost clock, 5 % slack.
_MAX_BF16_PER_SM: Final = {
    "8.0": 3.1, "8.9": 2.8, "9.0": 8.0, "10.0": 17.5, "10.3": 17.5, "12.0": 2.8, "gfx942": 4.6, "gfx950": 10.5,
}  # fmt: skip
# GB/s of the fastest memory each architecture shipped with, 4 % slack.
_MAX_HBM_GBPS: Final = {
    "Ampere": 2120, "Ada": 1000, "Hopper": 5000, "Blackwell": 8320, "Blackwell Ultra": 8320, "Blackwell sm120": 1870,
    "CDNA3": 6240, "CDNA4": 8320,
}  # fmt: skip
_NVLINK_PER_DIRECTION: Final = {"3": 300.0, "4": 450.0, "5": 900.0, "6": 1800.0}
_RESOURCES: Final[dict[Vendor, str | tuple[str, ...]]] = {
    Vendor.NVIDIA: "nvidia.com/", Vendor.AMD: "amd.com/", Vendor.INTEL: ("habana.ai/", "gpu.intel.com/"),
    Vendor.GOOGLE: "google.com/tpu", Vendor.HUAWEI: "huawei.com/",
}  # fmt: skip
_SUPERCHIP: Final = re.compile(r"\bG[BH]\d00\b|superchip", re.IGNORECASE)
_TOLERANCE: Final = {"memory_gib": 0.02, "memory_marketing_gb": 0.02, "hbm_gbps": 0.10, "peak_tflops": 0.12,
                     "scale_up": 0.15}  # fmt: skip


def check_gpu(
    gpu: GpuProfile, *, document: Document | None = None, compare: bool = True
) -> tuple[Issue, ...]:
    """Return everything implausible about `gpu`; codes in the module docstring.

    `document` gives file and line; `compare` looks for a shipped profile of the same part. Issues whose code is in
    `findings.WARNINGS` leave the profile usable.
    """
    r = Report("gpu", document)
    r.positive(
        {
            "memory_gib": gpu.memory_gib,
            "memory_marketing_gb": gpu.memory_marketing_gb,
            "hbm_gbps": gpu.hbm_gbps,
            "scale_up.aggregate_gbps": gpu.scale_up.aggregate_gbps,
            "scale_up.pairwise_gbps": gpu.scale_up.pairwise_gbps,
            "scale_up.domain_gpus": gpu.scale_up.domain_gpus,
            "pcie_gbps": gpu.pcie_gbps,
            "sm_count": gpu.sm_count,
            "tdp_w": gpu.tdp_w,
            **{f"peak_tflops.{d.value}": v for d, v in gpu.peak_tflops.items()},
        }
    )
    r.fractions({f"mamf_fraction.{d.value}": v for d, v in gpu.mamf_fraction.items()})
    if not r.issues:  # ratios of nonsense are noise
        _peaks(r, gpu)
        _memory(r, gpu)
        _links(r, gpu)
    _kubernetes(r, gpu)
    _prices(r, gpu)
    present = [f for f in _OPTIONAL_FIGURES if getattr(gpu, f)]
    r.sources(gpu.sources, [*FIGURES, *present], [f.name for f in fields(GpuProfile)])
    r.unconfirmed(gpu.sources, _INPUTS, lambda name: _shown(gpu, name))
    if gpu.availability is Availability.ANNOUNCED:
        r.add(
            "announced",
            ("availability",),
            what=f"{gpu.id} is announced, not available",
            why="its figures are pre-release",
            fix="plan with an available part, or treat every number as a guess",
        )
    if compare:
        _against_catalogue(r, gpu)
    return tuple(r.issues)


def _shown(gpu: GpuProfile, name: str) -> str:
    if name == "peak_tflops":
        return ", ".join(f"{d.value} {v:g}" for d, v in gpu.peak_tflops.items())
    if name == "scale_up":
        return f"{gpu.scale_up.aggregate_gbps:g} GB/s over {gpu.scale_up.domain_gpus}"
    return f"{getattr(gpu, name):g}"


def _peaks(r: Report, gpu: GpuProfile) -> None:
    bf16, fp8, fp4 = (gpu.peak_tflops.get(d) for d in (ComputeDtype.BF16, ComputeDtype.FP8, ComputeDtype.FP4))
    if bf16 is None:
        r.add(
            "value_range",
            ("peak_tflops", "bf16"),
            what="no bf16 peak",
            why="every other format falls back to it",
            fix="add the dense bf16 peak",
        )
        return

    def sparse(dtype: str, value: float, why: str) -> None:
        r.add(
            "sparse_peak",
            ("peak_tflops", dtype),
            what=f"{dtype} peak {value:g} TFLOP/s looks like the figure with sparsity",
            why=why,
            fix=f"use the dense peak, probably {value / 2:g}",
        )

    per_sm = _MAX_BF16_PER_SM.get(gpu.compute_capability or "")
    if per_sm and gpu.sm_count and bf16 > per_sm * gpu.sm_count:
        sparse(
            "bf16",
            bf16,
            f"{gpu.sm_count} SMs of this generation reach at most {per_sm * gpu.sm_count:.0f} dense",
        )
    pairs = (
        ("fp8", fp8, "bf16", bf16, _MAX_FP8_OVER_BF16),
        ("fp4", fp4, "fp8", fp8, _MAX_FP4_OVER_FP8),
    )
    for name, value, base_name, base, exceptions in pairs:
        limit = exceptions.get(gpu.architecture, _MAX_RATIO)
        if value is not None and base is not None and value > limit * base:
            sparse(
                name, value, f"it is {value / base:.2f} x the {base_name} peak; dense is at most {limit:g} x"
            )


def _memory(r: Report, gpu: GpuProfile) -> None:
    gib, marketing = gpu.memory_gib, gpu.memory_marketing_gb
    if gib > marketing * 1.001 or gib < marketing * 0.9:
        r.add(
            "memory_units",
            ("memory_gib",),
            what=f"{gib:g} GiB usable of a {marketing:g} GB part",
            why="usable memory is 90 to 100 % of the size on the box; 1 GiB is 1.0737 GB and 1024 MiB",
            fix="divide the driver's MiB by 1024 and take off what the runtime keeps",
        )
    elif gpu.vendor is Vendor.NVIDIA and gib > marketing * 0.9985:
        r.add(
            "memory_marketing",
            ("memory_gib",),
            what=f"memory_gib {gib:g} is the size on the box",
            why="CUDA never sees all of it (H200: 139.8 of 141)",
            fix="use the total that torch.cuda.mem_get_info reports",
        )
    if gpu.hbm_gbps < 100:
        r.add(
            "bandwidth_units",
            ("hbm_gbps",),
            what=f"hbm_gbps is {gpu.hbm_gbps:g}",
            why="the unit is GB/s, not TB/s",
            fix=f"write {gpu.hbm_gbps * 1000:g}",
        )
    limit = _MAX_HBM_GBPS.get(gpu.architecture)
    if limit is not None and gpu.hbm_gbps > limit:
        superchip = _SUPERCHIP.search(f"{gpu.id} {gpu.name}") is not None
        r.add(
            "superchip_figure" if superchip else "hbm_bandwidth",
            ("hbm_gbps",),
            what=f"memory bandwidth {gpu.hbm_gbps:g} GB/s",
            why=f"one {gpu.architecture} GPU reaches at most about {limit / 1.04:.0f} GB/s"
            + ("; a superchip holds two GPUs" if superchip else ""),
            fix="give the figure of one GPU",
        )


def _links(r: Report, gpu: GpuProfile) -> None:
    up = gpu.scale_up
    match = re.search(r"NVLink\s?(\d)", up.name)
    limit = _NVLINK_PER_DIRECTION.get(match.group(1)) if match else None
    if limit is not None and up.aggregate_gbps > limit * 1.05:
        r.add(
            "bidirectional_link",
            ("scale_up", "aggregate_gbps"),
            what=f"{up.name} at {up.aggregate_gbps:g} GB/s",
            why=f"one direction is {limit:g} GB/s; vendors quote both directions together",
            fix=f"write {limit:g}",
        )
    mesh_sum = up.pairwise_gbps * (up.domain_gpus - 1)
    if up.pairwise_gbps > up.aggregate_gbps * 1.001:
        problem = f"pairwise {up.pairwise_gbps:g} exceeds aggregate {up.aggregate_gbps:g} GB/s"
        why = "one peer cannot get more than all peers together"
    elif up.kind is ScaleUpKind.MESH and abs(mesh_sum - up.aggregate_gbps) > 0.02 * up.aggregate_gbps:
        problem = f"{up.domain_gpus - 1} links of {up.pairwise_gbps:g} are not {up.aggregate_gbps:g} GB/s"
        why = "in a full mesh the aggregate is the sum of the links to the peers"
    elif up.kind is ScaleUpKind.SWITCHED and up.pairwise_gbps < up.aggregate_gbps * 0.999:
        problem = f"pairwise {up.pairwise_gbps:g} below aggregate {up.aggregate_gbps:g} GB/s on a switch"
        why = "a switch gives any pair the full rate"
    else:
        return
    r.add("link_topology", ("scale_up",), what=problem, why=why, fix="correct the figure or the kind")


def _kubernetes(r: Report, gpu: GpuProfile) -> None:
    k = gpu.kubernetes
    if not k.resource.startswith(_RESOURCES[gpu.vendor]):
        r.add(
            "resource",
            ("kubernetes", "resource"),
            what=f"resource '{k.resource}' for a part of {gpu.vendor.value}",
            why="pods asking for it would stay pending",
            fix="use the name the vendor's device plugin advertises",
        )
    for i, value in enumerate(k.label_values):
        path = ("kubernetes", "label_values", i)
        r.label_value(path, value)
        real = never_scheduling_label(k.label_key, value)
        if real is not None:
            r.add(
                "label_never_schedules",
                path,
                what=f"node label {k.label_key}={value}",
                why="GPU feature discovery writes the driver's product name with dashes; no node carries this value",
                fix=f"use {real}",
            )


def never_scheduling_label(key: str, value: str) -> str | None:
    """Return the real value when `value` is one that no node ever carries, else None.

    From the driver's product names: SXM5 parts do not carry their form factor, and the name starts with the vendor.
    """
    if key != "nvidia.com/gpu.product":
        return None
    if "SXM5" in value:
        return "NVIDIA-H200" if "H200" in value else "NVIDIA-H100-80GB-HBM3"
    if not value.startswith(("NVIDIA-", "Tesla-", "Quadro-", "GRID-")):
        return f"NVIDIA-{value}"
    return None


def _prices(r: Report, gpu: GpuProfile) -> None:
    for i, price in enumerate(gpu.prices):
        if price.usd_per_gpu_hour <= 0 or not re.match(r"\d{4}-\d\d", price.date):
            r.add(
                "value_range",
                ("prices", i),
                what=f"price {price.usd_per_gpu_hour:g} USD dated '{price.date}'",
                why="a price is a positive input with a date",
                fix="give USD per GPU-hour and the date (yyyy-mm) it was seen",
            )


# --- comparison with the shipped catalogue ---


def shipped_counterpart(gpu: GpuProfile) -> tuple[GpuProfile, bool] | None:
    """Return the shipped profile of the same part, and whether id or alias say so (not only the name)."""
    folder = data_root() / "profiles" / "gpus"
    own = {normalise(n) for n in (gpu.id, *gpu.aliases)}
    words = [normalise(gpu.id).split("-"), re.findall(r"[a-z0-9]+", gpu.name.lower())]
    best: tuple[int, GpuProfile] | None = None
    for path in iter_files("gpus"):
        if path.parent != folder:
            continue
        text = path.read_text(encoding="utf-8").lower()
        if not any(w in text for group in words for w in group if len(w) >= 3):
            continue
        other = load(path, GpuProfile)
        names = {normalise(n) for n in (other.id, *other.aliases)}
        if own & names:
            return other, True
        for name in names:
            tokens = name.split("-")
            if any(_contains(group, tokens) for group in words) and (best is None or len(name) > best[0]):
                best = (len(name), other)
    return (best[1], False) if best else None


def _contains(words: list[str], tokens: list[str]) -> bool:
    return any(words[i : i + len(tokens)] == tokens for i in range(len(words) - len(tokens) + 1))


def _against_catalogue(r: Report, gpu: GpuProfile) -> None:
    found = shipped_counterpart(gpu)
    if found is None:
        return
    other, certain = found
    pairs: list[tuple[tuple[str, ...], float, float]] = [
        ((name,), getattr(gpu, name), getattr(other, name))
        for name in ("memory_gib", "memory_marketing_gb", "hbm_gbps")
    ]
    pairs += [
        (("peak_tflops", d.value), v, other.peak_tflops[d])
        for d, v in gpu.peak_tflops.items()
        if d in other.peak_tflops
    ]
    pairs.append((("scale_up", "aggregate_gbps"), gpu.scale_up.aggregate_gbps, other.scale_up.aggregate_gbps))
    for path, mine, theirs in pairs:
        if abs(mine - theirs) > _TOLERANCE[path[0]] * theirs:
            r.add(
                "differs_from_catalogue" if certain else "resembles_catalogue",
                path,
                what=f"{'.'.join(path)} is {mine:g}; the catalogue has {theirs:g} for {other.id}",
                why=f"more than {_TOLERANCE[path[0]]:.0%} apart for the same part",
                fix=f"see: planner profiles show {other.id}; for another part or a what-if use another id and name",
            )
    source = other.sources.get("kubernetes")
    if (
        certain
        and source is not None
        and source.confirmed
        and gpu.kubernetes.label_key == other.kubernetes.label_key
    ):
        for i, value in enumerate(gpu.kubernetes.label_values):
            seen = tuple(other.kubernetes.label_values)
            if never_scheduling_label(gpu.kubernetes.label_key, value) is None and not value.startswith(seen):
                r.add(
                    "label_never_schedules",
                    ("kubernetes", "label_values", i),
                    what=f"node label {gpu.kubernetes.label_key}={value}",
                    why=f"nodes with {other.name} carry {', '.join(seen)}",
                    fix=f"use {seen[0]}" if seen else "leave label_values empty",
                )
