"""Access to the measured tables of the installed aiconfigurator-core wheel (Apache-2.0)."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from planner.domain.engine import EngineName
from planner.domain.errors import Issue, MissingDataError
from planner.perf.operators.reference import Roofline

# GPU profile id -> table system. The A100 rows were taken on the 80 GB part.
SYSTEMS: Final = {
    "h100-sxm": "h100_sxm",
    "h200-sxm": "h200_sxm",
    "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "a100-80-sxm": "a100_sxm",
    "l40s": "l40s",
    "rtx-pro-6000-server": "rtx_pro_6000_server",
}


@dataclass(frozen=True, slots=True)
class Table:
    """One parquet table as a DataFrame, with where it came from."""

    name: str  # e.g. gemm/vllm/0.24.0/gemm_perf
    engine: str
    version: str
    frame: Any  # pandas.DataFrame


def systems_folder() -> Path:
    """Folder of the system files and tables.

    Raises MissingDataError ``opdb.missing`` when the extra is not installed.
    """
    spec = importlib.util.find_spec("aiconfigurator_core")
    have = importlib.util.find_spec("pandas") and importlib.util.find_spec("pyarrow")
    if spec is None or spec.origin is None or not have:
        raise MissingDataError(
            Issue(
                code="opdb.missing",
                what="the measured operator tables are not installed",
                why="fitting reads the tables of aiconfigurator-core 0.12 with pandas and pyarrow",
                fix='pip install "wideplan[opdb]"',
            )
        )
    return Path(spec.origin).parent / "systems"


def _version_key(name: str) -> tuple[int, ...]:
    return tuple(int(x) for x in re.findall(r"\d+", name))


def newest(system: str, family: str, engine: str, stem: str, *, skip: int = 0) -> Table | None:
    """Newest version's table ``<family>/<engine>/*/<stem>.parquet``; `skip` passes over the newest ones."""
    folder = systems_folder() / "data" / system / family / engine
    if not folder.is_dir():
        return None
    versions = sorted(
        (v.name for v in folder.iterdir() if (v / f"{stem}.parquet").is_file()),
        key=_version_key,
        reverse=True,
    )
    if len(versions) <= skip:
        return None
    version = versions[skip]
    return read(f"{family}/{engine}/{version}/{stem}", system)


@lru_cache(maxsize=64)
def read(name: str, system: str) -> Table:
    """Read one table by its path below the system's folder."""
    import pandas as pd

    _, engine, version, _ = name.split("/")
    frame = pd.read_parquet(systems_folder() / "data" / system / f"{name}.parquet")
    return Table(name, engine, version, frame[frame["latency"] > 0] if "latency" in frame else frame)


def roofline(system: str) -> Roofline:
    """Peaks of a system from the wheel's own description: the figures the residuals are relative to."""
    described = yaml.safe_load((systems_folder() / f"{system}.yaml").read_text(encoding="utf-8"))
    gpu, node = described["gpu"], described["node"]
    bf16 = gpu["bfloat16_tc_flops"] / 1e12
    fp8 = gpu.get("fp8_tc_flops", gpu["bfloat16_tc_flops"]) / 1e12
    return Roofline(
        hbm_gbps=gpu["mem_bw"] / 1e9,
        peak_tflops={"bf16": bf16, "fp8": fp8, "fp4": gpu.get("fp4_tc_flops", fp8 * 1e12) / 1e12},
        scale_up_gbps=node["intra_node_bw"] / 1e9,
    )


def engines() -> tuple[str, ...]:
    """Engines with tables."""
    return tuple(e.value for e in EngineName)
