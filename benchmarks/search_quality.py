"""How good is a search? Hypervolume ratio to the exhaustive optimum after 20, 50, 100 and 200 evaluations.

Two ratios. ``r``: of what the points found give in truth to the best there is, noise of the layouts included. ``c``: the same
for the truth without that noise, at the points that were found; the search is told the noisy values all the same.

Two kinds of truth, both known at every point of the space:

- ``synthetic``: the analytic model with four hidden factors off by 15-35 % (one sigma) and 6 % noise per layout;
- ``simulated``: a small space simulated exhaustively once (kept in --cache), searched by look-up.

    python benchmarks/search_quality.py                       # the candidate sampler, quick
    python benchmarks/search_quality.py --truths 20 --samplers candidates random tpe nsga2
    python benchmarks/search_quality.py --noise 0             # the same truths without noise
    python benchmarks/search_quality.py --noise 0 --run-noise 0.03   # runs that are off by 3 %, scored at the truth
    python benchmarks/search_quality.py --told                # a search that knows the hidden factors: the limit of learning
    python benchmarks/search_quality.py --kind simulated

Set OPENBLAS_NUM_THREADS=1: the matrices are small. The figures are printed, never asserted. Wall time depends on the machine; the ratios do not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planner.domain.problem import PlanningProblem
from planner.domain.study import Objective, SamplerName, TrialOutcome
from planner.domain.workload import SloTargets
from planner.search.ask import Request, build_problem
from planner.search.from_recipe import with_recipe
from planner.search.solve import solve
from planner.search.studies.belief import FactorPrior
from planner.search.studies.evaluate import Fidelity, Observation
from planner.search.studies.hypervolume import Front
from planner.search.studies.loop import outcome_of
from planner.search.studies.proposer import Proposer
from planner.search.studies.sampler import CandidateSampler
from planner.search.studies.sources import OptunaSource
from planner.search.studies.space import SearchSpace
from planner.search.studies.synthetic import Truth, draw_log_factors, synthetic_truth

RECIPES = ("gpt-oss-120b-h200x8", "qwen3-235b-h100x16", "deepseek-r1-h200x32")
AT = (20, 50, 100, 200)
OBJECTIVES = (Objective.RATE, Objective.USER)


def reference_of(problem: PlanningProblem) -> tuple[float, float]:
    """No throughput, and the slowest rate that a user accepts."""
    limit = problem.slo.tpot_limit_ms
    return (0.0, 1000.0 / limit if limit is not None else 0.0)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A truth, the same without noise, and the hidden log factors of both."""

    truth: Truth
    clean: Truth | None = None
    factors: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Hypervolume ratio after each evaluation, to the best of the truth and of the truth without noise."""

    strict: list[float]
    clean: list[float]


def search(
    space: SearchSpace,
    drawn: Drawn,
    *,
    sampler: SamplerName,
    seed: int,
    evaluations: int,
    warm: bool,
    told: bool = False,
    run_noise: float = 0.0,
) -> Run:
    """Search one truth; only different feasible-or-not points are charged, repeats are free."""
    reference = reference_of(space.problem)
    objectives = [t.objectives(space) for t in (drawn.truth, drawn.clean) if t is not None]
    best = [Front.of(o, reference).hypervolume for o in objectives]
    source = OptunaSource(space, sampler=sampler, seed=seed, objectives=OBJECTIVES, warm_start=warm)
    if told and isinstance(source.sampler, CandidateSampler) and drawn.factors is not None:
        prior = FactorPrior(mean=drawn.factors, sd=0.01)
        source.sampler.proposer = Proposer(space, seed=seed, prior=prior)
    seen: list[int] = []
    ratios: tuple[list[float], list[float]] = ([], [])
    while len(seen) < evaluations and (index := source.next()) is not None:
        base = space.base(index)
        observation = blurred(drawn.truth.observe(base), run_noise, seed=[seed, base])
        outcome: TrialOutcome = outcome_of(observation, OBJECTIVES, space, plan_hash=None, label="")
        source.tell(index, observation, outcome)
        seen.append(base)
        for found, values, most in zip(ratios, objectives, best, strict=False):
            found.append(Front.of(values[seen], reference).hypervolume / most)
    return Run(*ratios)


def blurred(seen: Observation, sd: float, *, seed: list[int]) -> Observation:
    """What one run of limited length shows of the truth: each figure off by a log-normal error of its own, which is stated."""
    if sd <= 0.0:
        return seen
    rate, tpot, ttft = np.exp(sd * np.random.default_rng(seed).standard_normal(3))
    return replace(
        seen,
        output_tok_s_per_gpu=seen.output_tok_s_per_gpu * float(rate),
        tpot_ms=seen.tpot_ms * float(tpot),
        ttft_ms=seen.ttft_ms * float(ttft),
        log_se=(sd, sd, sd),
    )


def report(name: str, runs: Sequence[Run], seconds: float) -> dict[str, object]:
    """One line: mean and worst ratios at each count, and seconds of CPU."""
    row: dict[str, object] = {"search": name, "runs": len(runs)}
    for key, curves in (("r", [r.strict for r in runs]), ("c", [r.clean for r in runs])):
        for n in AT:
            values = [c[min(n, len(c)) - 1] for c in curves if c]
            if values and max(map(len, curves)) >= n:
                row[f"{key}{n}"] = f"{np.mean(values):.3f} ({min(values):.3f})"
    row["cpu_s_per_run"] = round(seconds / max(len(runs), 1), 1)
    return row


def show(rows: Sequence[dict[str, object]]) -> None:
    """A table on stdout."""
    columns = list(dict.fromkeys(k for r in rows for k in r))
    widths = [max(len(c), *(len(str(r.get(c, ""))) for r in rows)) for c in columns]
    print("  ".join(c.ljust(w) for c, w in zip(columns, widths, strict=True)))
    for r in rows:
        print("  ".join(str(r.get(c, "")).ljust(w) for c, w in zip(columns, widths, strict=True)), flush=True)


def spaces(recipes: Sequence[str], *, slo: bool) -> list[SearchSpace]:
    """The legal sets of recipes."""
    found = []
    for recipe in recipes:
        problem, engine = build_problem(with_recipe(recipe, Request()))
        problem = problem if slo else replace(problem, slo=SloTargets())
        found.append(SearchSpace(solve(problem, engine)))
    return found


def synthetic(arguments: argparse.Namespace) -> None:
    """Truths drawn from the analytic model."""
    for space in spaces(arguments.recipes, slo=not arguments.no_slo):
        print(
            f"\n{space.problem.name}: {space.base_size} points of {len(space.configs)} configurations, "
            f"{arguments.truths} truths x {arguments.seeds} seeds"
        )
        truths = []
        for t in range(arguments.truths):
            rng = np.random.default_rng([17, t])
            factors = draw_log_factors(rng)
            noisy = synthetic_truth(space, factors, noise_sd=arguments.noise, rng=rng)
            clean = synthetic_truth(space, factors, noise_sd=0.0, rng=rng)
            truths.append(Drawn(noisy, clean, factors))
        rows = []
        for name, sampler, warm in samplers(arguments.samplers):
            start = time.process_time()
            runs = [
                search(
                    space, truth, sampler=sampler, seed=seed, evaluations=arguments.evaluations, warm=warm,
                    told=arguments.told, run_noise=arguments.run_noise,
                )
                for truth in truths
                for seed in range(arguments.seeds)
            ]  # fmt: skip
            rows.append(report(name, runs, time.process_time() - start))
            print(f"  {rows[-1]}", file=sys.stderr, flush=True)
        show(rows)


def samplers(names: Sequence[str]) -> list[tuple[str, SamplerName, bool]]:
    """(label, sampler, warm start): generic samplers cold and warm."""
    out: list[tuple[str, SamplerName, bool]] = []
    for name in names:
        sampler = SamplerName(name)
        if sampler is SamplerName.CANDIDATES:
            out.append((name, sampler, True))
        else:
            out += [(f"{name}, cold", sampler, False), (f"{name}, 20 warm", sampler, True)]
    return out


def simulated(arguments: argparse.Namespace) -> None:
    """A small space simulated at every point, then searched."""
    request = Request(
        model="openai/gpt-oss-120b", gpu="h200-sxm", gpus=4, isl=2048, osl=256, ttft_ms=1000.0, tpot_ms=25.0,
        dbo=False, eplb=False, name="gpt-oss-120b on 4 H200",
    )  # fmt: skip
    problem, engine = build_problem(request)
    space = SearchSpace(solve(problem, engine))
    truth = exhaustive(space, arguments.cache)
    print(f"\n{problem.name}: {space.base_size} points simulated")
    rows = []
    for name, sampler, warm in samplers(arguments.samplers):
        start = time.process_time()
        runs = [
            search(
                space, Drawn(truth), sampler=sampler, seed=seed, evaluations=arguments.evaluations, warm=warm
            )
            for seed in range(arguments.seeds)
        ]
        rows.append(report(name, runs, time.process_time() - start))
    show(rows)


def exhaustive(space: SearchSpace, cache: Path) -> Truth:
    """Every base point simulated once, shortly; read from `cache` when it is of the same space."""
    from planner.search.studies.simulated import SimulatedEvaluator

    evaluator = SimulatedEvaluator(space.problem, space.solution.engine)
    fidelity = Fidelity(name="benchmark", requests_per_slot=2.0, min_requests=64, max_requests=512)
    key = f"{evaluator.version} {space.base_size} {float(space.rate.sum()):.3f}"
    if cache.exists():
        stored = json.loads(cache.read_text())
        if stored["key"] == key:
            return Truth(**{k: np.array(stored[k]) for k in ("rate", "tpot_ms", "ttft_ms")})
    columns: dict[str, list[float]] = {"rate": [], "tpot_ms": [], "ttft_ms": []}
    start = time.perf_counter()
    for base in range(space.base_size):
        o = attempt(lambda base=base: evaluator.observe(space.plan(base), fidelity=fidelity, seed=0))
        columns["rate"].append(o.output_tok_s_per_gpu if o.usable else 1e-9)
        columns["tpot_ms"].append(o.tpot_ms if o.usable else 1e9)
        columns["ttft_ms"].append(o.ttft_ms if o.usable else 1e9)
        if base % 200 == 0:
            print(
                f"simulated {base}/{space.base_size}, {time.perf_counter() - start:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    cache.write_text(json.dumps({"key": key, **columns}))
    return Truth(**{k: np.array(v) for k, v in columns.items()})


def attempt(evaluate: Callable[[], Observation]) -> Observation:
    """The observation, or one that says why there is none."""
    from planner.domain.errors import PlannerError

    try:
        return evaluate()
    except PlannerError as error:
        return Observation(error=error.issues[0].code)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=["synthetic", "simulated"], default="synthetic")
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES))
    parser.add_argument("--truths", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--noise", type=float, default=0.06)
    parser.add_argument("--run-noise", type=float, default=0.0, help="error of each run; scored at the truth")
    parser.add_argument("--no-slo", action="store_true", help="without the recipe's targets")
    parser.add_argument("--told", action="store_true", help="the search knows the hidden factors")
    parser.add_argument("--samplers", nargs="*", default=["candidates"])
    parser.add_argument("--cache", type=Path, default=Path("search_quality_truth.json"))
    arguments = parser.parse_args()
    (synthetic if arguments.kind == "synthetic" else simulated)(arguments)


if __name__ == "__main__":
    main()
