"""Options shared by the commands that ask a planning question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.completing import fabric_names, gpu_names, model_names, node_names
from planner.domain.deployment import Strategy
from planner.domain.dtypes import KvDtype

Model = Annotated[
    str | None,
    typer.Option("--model", help="Model id, alias, or path of a config.json.", autocompletion=model_names),
]
Gpu = Annotated[str | None, typer.Option("--gpu", help="GPU type, e.g. h200-sxm.", autocompletion=gpu_names)]
Fabric = Annotated[
    str | None,
    typer.Option("--fabric", help="Scale-out network, e.g. ib-ndr400.", autocompletion=fabric_names),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", help="Node shape, e.g. coreweave-h200, or live.", autocompletion=node_names),
]
Gpus = Annotated[int | None, typer.Option("--gpus", help="GPUs you own.")]
PrefillGpu = Annotated[
    str | None, typer.Option("--prefill-gpu", help="GPU type of the prefill role.", autocompletion=gpu_names)
]
DecodeGpu = Annotated[
    str | None, typer.Option("--decode-gpu", help="GPU type of the decode role.", autocompletion=gpu_names)
]
PrefillGpus = Annotated[int | None, typer.Option("--prefill-gpus", help="GPUs of the prefill type.")]
DecodeGpus = Annotated[int | None, typer.Option("--decode-gpus", help="GPUs of the decode type.")]
Isl = Annotated[int | None, typer.Option("--isl", help="Prompt tokens per request.")]
Osl = Annotated[int | None, typer.Option("--osl", help="Output tokens per request.")]
PrefixHit = Annotated[
    float | None, typer.Option("--prefix-hit", help="Share of prompt tokens in cache, 0 to <1.")
]
PrefixShared = Annotated[
    bool | None,
    typer.Option(
        "--prefix-shared/--prefix-own", help="Cached prefix: common to all, or each conversation's own."
    ),
]
TtftMs = Annotated[float | None, typer.Option("--ttft-ms", help="Target: median time to first token.")]
TpotMs = Annotated[float | None, typer.Option("--tpot-ms", help="Target: median time per output token.")]
TokSUser = Annotated[float | None, typer.Option("--tok-s-user", help="Target: output tokens/s of one user.")]
StrategyOption = Annotated[Strategy | None, typer.Option("--strategy", help="Only this strategy.")]
KvDtypeOption = Annotated[KvDtype | None, typer.Option("--kv-dtype", help="Only this KV cache format.")]
EngineVersion = Annotated[str | None, typer.Option("--engine-version", help="vLLM profile to plan for.")]
Price = Annotated[float | None, typer.Option("--usd-per-gpu-hour", help="Price for $/M tokens.")]
Dbo = Annotated[bool | None, typer.Option("--dbo/--no-dbo", help="Try dual-batch overlap (default: yes).")]
EplbOption = Annotated[
    bool | None, typer.Option("--eplb/--no-eplb", help="Try expert load balancing (default: yes).")
]
Mtp = Annotated[int | None, typer.Option("--mtp", help="Draft tokens per step (multi-token prediction).")]
MtpAcceptance = Annotated[
    float | None, typer.Option("--mtp-acceptance", help="Chance that one more draft is accepted, 0 to 1.")
]
CalibrationOption = Annotated[
    bool | None,
    typer.Option(
        "--calibration/--no-calibration",
        help="Use your stored calibration (default: if it predicts left-out points better).",
    ),
]
Profiles = Annotated[
    Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
