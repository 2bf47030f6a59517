"""Write profiles/demo/: a simulated study of a recipe, and a recording of its pick on 32 GPUs with one fault. About 3 minutes.

python docs/build_demo.py [study] [cluster]
"""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from console.cluster.fake.box import Box  # noqa: E402
from planner.cli.demo_data import CLUSTER, RECIPE, STUDY, demo_folder  # noqa: E402

TRIALS = 120
HEALTHY_S, WORSE_S, SETTLED_S, PERIOD_S = 30, 50, 20, 5.0
QUEUED = 42  # requests of the hot rank at the end; every rank queues none before


def build_study(folder: Path) -> None:
    """Run the search as a user would and keep what it stored."""
    from planner.cli.main import main
    from planner.storage.bundle import dump_studies
    from planner.storage.store import open_store

    os.environ["WIDEPLAN_DATABASE_URL"] = f"sqlite:///{folder / 'build.db'}"
    try:
        main(["search", RECIPE, "--trials", str(TRIALS), "--workers", "2", "--seed", "0", "--name", STUDY])
    except SystemExit as done:
        if done.code:
            raise
    with open_store() as store:
        _write(f"{STUDY}-study.json.gz", dump_studies(store, [STUDY]))


def build_cluster(folder: Path) -> None:
    """Deploy the recommended plan in a cluster in a box, let one decode rank fall behind, and record it."""
    from planner.catalog.plans import save_plan
    from planner.search.ask import Request, build_problem
    from planner.search.from_recipe import with_recipe
    from planner.search.recommend import recommend

    pick = recommend(*build_problem(with_recipe(RECIPE, Request()))).pick
    if pick is None:
        sys.exit(f"{RECIPE} has no pick: the demo needs one")
    plan, tape = folder / "plan.json", folder / "tape.jsonl"
    save_plan(pick.plan, plan)
    asyncio.run(_record(plan, folder, tape))
    _write(f"{CLUSTER}.gz", tape.read_text(encoding="utf-8"))


async def _record(plan: Path, folder: Path, tape: Path) -> None:
    from console.cluster.fake.box import cluster_in_a_box
    from console.cluster.open import Opening, open_source
    from console.cluster.recording import Recorder
    from planner.cli.demo_cluster import deployment

    objects, loads = deployment(plan)
    async with cluster_in_a_box(nodes=4, objects=objects, loads=loads) as box:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(box.kubeconfig(), encoding="utf-8")
        opening = Opening(kubeconfig=str(kubeconfig), period_s=PERIOD_S)
        await asyncio.sleep(5.0)  # engines have a history when the tape begins
        async with open_source(opening) as source:
            await source.ready(30.0)
            recorder = Recorder(tape, source.snapshot())
            source.subscribe(recorder)
            await asyncio.sleep(HEALTHY_S)
            pod, port = _last_rank(box)
            for second in range(WORSE_S):
                box.engines.queued[pod, port] = QUEUED * (second + 1) // WORSE_S
                await asyncio.sleep(1.0)
            await asyncio.sleep(SETTLED_S)
            recorder.close()


def _last_rank(box: Box) -> tuple[str, int]:
    """Pod and port of the decode rank that falls behind. A hot rank needs peers."""
    ranks = [
        (p["metadata"]["name"], port)
        for p in box.server.store.list(("", "pods"), "default")
        if (p["metadata"].get("labels") or {}).get("llm-d.ai/role") == "decode"
        for port in range(8000, 8008)
        if box.engines("default", p["metadata"]["name"], port, "/metrics") is not None
    ]
    if len(ranks) < 2:
        sys.exit(f"the pick of {RECIPE} has {len(ranks)} decode rank(s): take another recipe")
    return max(ranks)


def _write(name: str, text: str) -> None:
    target = demo_folder() / name
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    sys.stderr.write(f"{target}: {target.stat().st_size:,} bytes, {len(text):,} unpacked\n")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["study", "cluster"]
    with tempfile.TemporaryDirectory() as scratch:
        if "study" in wanted:
            build_study(Path(scratch))
        if "cluster" in wanted:
            build_cluster(Path(scratch))
