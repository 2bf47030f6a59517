"""What a study believes about every point: the analytic model, corrected by what the trials showed, with uncertainty.

The log residual (observed over analytic) of throughput, TPOT and TTFT is a Bayesian linear model:

    r_tpot = S_tpot f + e_tpot      e_tpot = C u + W a      f: log factors of the physics, shared, prior N(0, 0.25^2)
    r_ttft = S_ttft f + e_ttft      e_ttft = C v + W b      u, v: effects of choices the physics may misjudge
    r_rate = S_rate f - (d e_tpot + (1 - d) e_ttft) + W c   a, b, c: smooth remainders (random Fourier features)

plus, per metric, an effect of the layout that its loads and near-duplicates share, and noise. S are sensitivities of the full model, d
the share of decoding in a request's life (throughput follows from the closed loop). Everything is Gaussian, so the
posterior and joint draws from it are exact. The belief covers the `domain`, the base points that may be on the front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Final

import numpy as np

from planner.domain.deployment import Strategy
from planner.measurements.factors import bend_sd
from planner.perf.operators.base import FloatArray
from planner.search.studies.model import FACTORS, FactorModel
from planner.search.studies.space import IntArray, SearchSpace

RATE, TPOT, TTFT = 0, 1, 2  # order of the metric axis, as in planner.measurements.predictor
FACTOR_SD: Final = 0.25
CHOICE_SD: Final = (0.08, 0.15)  # of TPOT and TTFT
SMOOTH_SD: Final = (0.04, 0.08, 0.12)  # of the extra rate residual, TPOT, TTFT
LAYOUT_SD: Final = (0.05, 0.05, 0.08)
NOISE_FLOOR: Final = (0.02, 0.02, 0.03)  # what near-duplicates differ by, among other things
RESIDUAL_LIMIT: Final = 1.5  # logs; a point past saturation must not decide about the rest
_FEATURES: Final = 20
_SCALES: Final = (0.4, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class Hyper:
    """Scales of the smooth remainder and of layout effects, relative to their priors."""

    smooth: float = 1.0
    layout: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorPrior:
    """What is thought of the log factors beforehand; factors without a mean have 0."""

    mean: Mapping[str, float] = field(default_factory=dict)
    sd: float = FACTOR_SD


class Belief:
    """Posterior over log residuals of the points whose base point is in `domain`."""

    def __init__(
        self, space: SearchSpace, domain: IntArray, *, seed: int, prior: FactorPrior | None = None
    ) -> None:
        self.space = space
        self.prior = prior or FactorPrior()
        self._physics = FactorModel(space)
        self._all_choices = _choice_columns(space)
        self._all_inputs = _inputs(space)
        self._layouts = space.layouts()
        rng = np.random.default_rng([seed, 77])
        self._waves = rng.standard_normal((self._all_inputs.shape[1], _FEATURES)) / 1.2
        self._phase = rng.uniform(0.0, 2.0 * np.pi, _FEATURES)
        self.hyper = Hyper()
        self._observed: list[tuple[int, FloatArray, FloatArray]] = []
        self.centre: Mapping[str, float] = {}
        self._cover(domain, self.prior.mean)
        self._tuned = 0

    def _cover(self, domain: IntArray, centre: Mapping[str, float]) -> None:
        """Linearise the physics about `centre` at the points of `domain`, and read the observations again."""
        space = self.space
        self.domain, self.centre = domain, dict(centre)
        self._position = np.full(space.base_size, -1, dtype=np.intp)
        self._position[domain] = np.arange(len(domain))
        # at the whole number of requests a run has, which the analytic points round to
        self._expected, self._sensitivity = self._physics.linearise(domain, centre)
        about = np.array([centre.get(f, 0.0) for f in FACTORS])
        self._baseline = self._expected - self._sensitivity @ about
        generated = max(space.problem.workload.osl - 1, 1) * np.exp(self._expected[:, TPOT])
        self._decoding = generated / (generated + np.exp(self._expected[:, TTFT]))
        self._choices = self._all_choices[domain]
        self._inputs = self._all_inputs[domain]
        self._seen: list[int] = []
        self._residuals: list[FloatArray] = []
        self._noise: list[FloatArray] = []
        for seen in self._observed:
            self._take(*seen)
        self._mean = self._prior_mean()
        self._root = np.diag(np.sqrt(self._prior()))
        self._fitted = 0

    @property
    def width(self) -> int:
        """Weights of the linear model."""
        return len(FACTORS) + 2 * self._choice_width + 3 * _FEATURES

    @property
    def observations(self) -> int:
        """Points observed."""
        return len(self._seen)

    def baseline(self, index: IntArray) -> FloatArray:
        """Log throughput, TPOT and TTFT to which log residuals are relative, ``[n, 3]``."""
        result: FloatArray = self._baseline[self._position[index // len(self.space.routers)]]
        return result

    def observe(self, index: int, logs: FloatArray, log_se: FloatArray) -> None:
        """Add the observed logs of throughput, TPOT and TTFT at `index` (NaN = unknown), with standard errors.

        Points outside the domain are ignored.
        """
        self._observed.append((index, logs, log_se))
        self._take(index, logs, log_se)

    def _take(self, index: int, logs: FloatArray, log_se: FloatArray) -> None:
        position = self._position[self.space.base(index)]
        if position < 0:
            return
        self._seen.append(index)
        expected = self._expected[position]
        limited = expected + np.clip(logs - expected, -RESIDUAL_LIMIT, RESIDUAL_LIMIT)
        self._residuals.append(limited - self._baseline[position])
        bent = bend_sd(self._sensitivity[position])
        self._noise.append(np.hypot(np.maximum(log_se, np.array(NOISE_FLOOR)), bent))

    def move(self, domain: IntArray, centre: Mapping[str, float]) -> None:
        """Cover other points, with sensitivities taken at the log factors `centre`; what was observed stays observed."""
        self._cover(domain, centre)

    def physics(self, base: IntArray, log_factors: Mapping[str, float]) -> FloatArray:
        """Log throughput, TPOT and TTFT ``[n, 3]`` of the full model under `log_factors`, at any base points."""
        return self._physics.solve(base, log_factors).logs()

    def factors(self) -> dict[str, tuple[float, float]]:
        """Posterior mean and standard deviation of each log factor."""
        self._update()
        sd = np.sqrt((self._root**2).sum(axis=1))
        return {n: (float(self._mean[i]), float(sd[i])) for i, n in enumerate(FACTORS)}

    def mean(self, index: IntArray) -> FloatArray:
        """Expected log residuals ``[n, 3]``."""
        self._update()
        effect = self._layout_effect(index, self._mean[None, :])[0]
        result: FloatArray = self._design(index) @ self._mean + effect
        return result

    def physical_mean(self) -> FloatArray:
        """Expected log residuals of the domain from the factors alone, ``[len(domain), 3]``."""
        self._update()
        result: FloatArray = self._sensitivity @ self._mean[: len(FACTORS)]
        return result

    def draws(self, index: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
        """Joint posterior draws of the log residuals, ``[count, n, 3]``."""
        self._update()
        weights = self._mean + rng.standard_normal((count, self.width)) @ self._root.T
        design = self._design(index)
        linear = np.tensordot(weights, design, axes=(1, 2))
        return linear + self._layout_effect(index, weights, rng)

    # --- inside ---

    @property
    def _choice_width(self) -> int:
        return int(self._choices.shape[1]) + len(self.space.routers)

    def _prior(self) -> FloatArray:
        q = self._choice_width
        return np.concatenate(
            [
                np.full(len(FACTORS), self.prior.sd**2),
                np.full(q, CHOICE_SD[0] ** 2),
                np.full(q, CHOICE_SD[1] ** 2),
                *(np.full(_FEATURES, (self.hyper.smooth * s) ** 2 * 2.0 / _FEATURES) for s in SMOOTH_SD),
            ]
        )

    def _prior_mean(self) -> FloatArray:
        mean = np.zeros(self.width)
        mean[: len(FACTORS)] = [self.prior.mean.get(f, 0.0) for f in FACTORS]
        return mean

    def _design(self, index: IntArray) -> FloatArray:
        """``[n, 3, width]``."""
        routers = len(self.space.routers)
        at, router = self._position[index // routers], index % routers
        k, q, r = len(FACTORS), self._choice_width, _FEATURES
        choice = np.concatenate([self._choices[at], np.eye(routers)[router]], axis=1)
        wave = np.cos(self._inputs[at] @ self._waves + self._phase)
        out = np.zeros((len(index), 3, self.width))
        out[:, TPOT, k : k + q] = choice
        out[:, TPOT, k + 2 * q + r : k + 2 * q + 2 * r] = wave
        out[:, TTFT, k + q : k + 2 * q] = choice
        out[:, TTFT, k + 2 * q + 2 * r :] = wave
        d = self._decoding[at][:, None]
        out[:, RATE] = -(d * out[:, TPOT] + (1.0 - d) * out[:, TTFT])
        out[:, :, :k] = self._sensitivity[at]
        out[:, RATE, k + 2 * q : k + 2 * q + r] = wave
        return out

    def _groups(self, index: IntArray) -> IntArray:
        """The layout: what all loads, routers and near-duplicate configurations share."""
        result: IntArray = self._layouts[self.space.config[index // len(self.space.routers)]]
        return result

    def _update(self) -> None:
        if self._fitted == len(self._seen):  # with none seen the prior stands
            return
        n = len(self._seen)
        self._seen_array = np.array(self._seen, dtype=np.intp)
        self._x = self._design(self._seen_array)
        self._y = np.array(self._residuals)
        if n >= 6 and (self._tuned == 0 or n >= self._tuned * 1.3):
            self._tune()
            self._tuned = n
        self._mean, self._root, _ = self._solve(self.hyper)
        self._fitted = n

    def _tune(self) -> None:
        """Scales with the highest marginal likelihood (with a weak pull towards 1)."""
        scored = []
        for smooth, layout in product(_SCALES, _SCALES):
            hyper = Hyper(smooth, layout)
            pull = 0.5 * (np.log(smooth) ** 2 + np.log(layout) ** 2)
            scored.append((self._solve(hyper)[2] - float(pull), hyper))
        self.hyper = max(scored, key=lambda s: s[0])[1]

    def _solve(self, hyper: Hyper) -> tuple[FloatArray, FloatArray, float]:
        """Posterior mean, a root of the covariance, and the log marginal likelihood up to a constant."""
        kept = self.hyper
        self.hyper = hyper
        prior = self._prior()
        self.hyper = kept
        groups = self._groups(self._seen_array)
        same = groups[:, None] == groups[None, :]
        precision = np.diag(1.0 / prior)
        centre = self._prior_mean()
        right = centre / prior
        evidence = -0.5 * float(np.log(prior).sum() + (centre**2 / prior).sum())
        noise = np.array(self._noise)
        for m in range(3):
            known = np.isfinite(self._y[:, m])
            if not known.any():
                continue
            covariance = np.where(
                same[np.ix_(known, known)], (hyper.layout * LAYOUT_SD[m]) ** 2, 0.0
            ) + np.diag(noise[known, m] ** 2)
            lower = np.linalg.cholesky(covariance)
            x = np.linalg.solve(lower, self._x[known, m])
            y = np.linalg.solve(lower, self._y[known, m])
            precision += x.T @ x
            right += x.T @ y
            evidence += -0.5 * float(y @ y) - float(np.log(np.diag(lower)).sum())
        lower = np.linalg.cholesky(precision)
        half = np.linalg.solve(lower, right)
        mean = np.linalg.solve(lower.T, half)
        evidence += 0.5 * float(half @ half) - float(np.log(np.diag(lower)).sum())
        root = np.linalg.inv(lower).T
        return mean, root, evidence

    def _layout_effect(
        self, index: IntArray, weights: FloatArray, rng: np.random.Generator | None = None
    ) -> FloatArray:
        """Layout effects given weights ``[s, width]``: ``[s, n, 3]``; the mean without `rng`, else a draw.

        All points of a layout get the same draw.
        """
        wanted, inverse = np.unique(self._groups(index), return_inverse=True)
        sd = self.hyper.layout * np.array(LAYOUT_SD)
        mean = np.zeros((len(weights), len(wanted), 3))
        spread = np.broadcast_to(sd, (len(wanted), 3)).copy()
        if self._seen:
            seen = self._groups(self._seen_array)
            left = self._y[None] - np.tensordot(weights, self._x, axes=(1, 2))
            known = np.isfinite(self._y)
            inverse_noise = np.where(known, 1.0 / np.array(self._noise) ** 2, 0.0)
            at = np.searchsorted(wanted, seen)
            hit = (at < len(wanted)) & (wanted[np.minimum(at, len(wanted) - 1)] == seen)
            gained = np.zeros((len(wanted), 3))
            np.add.at(gained, at[hit], inverse_noise[hit])
            member = (at[hit][:, None] == np.arange(len(wanted))).astype(np.float64)
            weighted = np.where(known, left, 0.0)[:, hit] * inverse_noise[hit]
            pulled = np.einsum("nw,snm->swm", member, weighted, optimize=True)
            total = gained + 1.0 / sd**2
            mean = pulled / total
            spread = 1.0 / np.sqrt(total)
        if rng is not None:
            mean = mean + rng.standard_normal(mean.shape) * spread
        result: FloatArray = mean[:, inverse.reshape(-1)]
        return result


def _inputs(space: SearchSpace) -> FloatArray:
    """Smooth features of every base point, of about unit scale."""
    per_config = []
    for i in range(len(space.configs)):
        roles = space.roles(i)
        last = roles[-1]
        per_config.append(
            [
                np.log2(last.parallelism.tp),
                0.7 * np.log2(last.parallelism.dp),
                1.5 * float(len(roles) > 1),
                np.log2(roles[0].gpus / max(sum(r.gpus for r in roles), 1)),
                0.5 * np.log2(roles[0].parallelism.gpus),
            ]
        )
    table = np.array(per_config, dtype=np.float64).reshape(len(space.configs), -1)
    load = 0.5 * np.log2(space.batch)
    pressure = 2.0 * space.utilisation
    return np.column_stack([table[space.config], load, pressure])


def _choice_columns(space: SearchSpace) -> FloatArray:
    """One column per value of each on/off or named choice, ``[base points, q]``."""
    names: dict[str, int] = {}
    rows: list[list[str]] = []
    for i, config in enumerate(space.configs):
        roles = space.roles(i)
        last = roles[-1]
        labels = [
            f"strategy {config.strategy.value}",
            f"backend {last.all2all.value}",
            f"dcp {last.parallelism.dcp}",
            f"kv {last.kv_dtype.value}",
        ]
        labels += ["dbo"] * last.dbo + ["eplb"] * (last.eplb is not None)
        labels += ["experts sharded"] * (not last.parallelism.expert_parallel)
        if config.strategy is Strategy.DISAGGREGATED:
            labels.append(f"prefill backend {roles[0].all2all.value}")
        rows.append(labels)
        for label in labels:
            names.setdefault(label, len(names))
    table = np.zeros((len(rows), len(names)))
    for i, labels in enumerate(rows):
        table[i, [names[label] for label in labels]] = 1.0
    return table[space.config]
