"""Measured points as a table, one in full, and two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.views.metrics import change, figure
from planner.domain.measurement import Latency, MeasuredLoad, Measurement
from planner.storage.measured import StoredMeasurement


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRow:
    """One measured point."""

    key: str
    model: str
    gpu: str
    plan: str
    shape: str
    load: str
    rate: str
    tpot: str
    ttft: str
    engine: str
    flags: str


def measurement_rows(
    stored: Sequence[StoredMeasurement], *, filter_text: str = ""
) -> tuple[MeasurementRow, ...]:
    """Rows whose text holds every word of `filter_text`; ``!word`` must not occur."""
    words = filter_text.lower().split()
    rows = [_row(s) for s in stored]
    return tuple(r for r in rows if all(_holds(r, w) for w in words))


def _holds(row: MeasurementRow, word: str) -> bool:
    text = f"{row.model} {row.gpu} {row.plan} {row.shape} {row.load} {row.engine} {row.flags}".lower()
    return word[1:] not in text if word.startswith("!") else word in text


def _row(stored: StoredMeasurement) -> MeasurementRow:
    m = stored.measurement
    return MeasurementRow(
        key=stored.hash,
        model=m.model.rsplit("/", 1)[-1],
        gpu=f"{m.gpus} x {m.gpu}",
        plan=m.label(),
        shape=f"{m.workload.isl}/{m.workload.osl}",
        load=load_text(m.load),
        rate=figure(m.result.output_tok_s_per_gpu),
        tpot=figure(m.result.tpot.typical_ms),
        ttft=figure(m.result.ttft.typical_ms),
        engine=f"{m.engine.value} {m.engine_version}",
        flags=", ".join(f.value for f in m.flags),
    )


def load_text(load: MeasuredLoad) -> str:
    """The offered load in a few characters."""
    if load.concurrency is not None:
        return f"c{load.concurrency:g}"
    return f"{load.request_rate_per_s:g}/s" if load.request_rate_per_s is not None else "max"


def measurement_lines(m: Measurement) -> tuple[str, ...]:
    """One measurement in full; what the source does not say is a dash."""
    r, s = m.result, m.settings
    settings = {
        "DBO": s.dbo,
        "EPLB": s.eplb,
        "MTP": s.mtp,
        "draft tokens": s.draft_tokens,
        "weights": s.quantization,
    }
    said = ", ".join(f"{k} {v}" for k, v in settings.items() if v is not None) or "no settings stated"
    origin = m.origin
    rates = (
        f"output {figure(r.output_tok_s_per_gpu)} tok/s/GPU, input {figure(r.input_tok_s_per_gpu)} tok/s/GPU, "
        f"{figure(r.requests_per_s)} requests/s"
    )
    done, failed = ("–" if n is None else f"{n:,}" for n in (r.completed, r.failed))
    lines = [
        f"{m.model} on {m.gpus} x {m.gpu}, {m.engine.value} {m.engine_version}, {m.strategy.value}",
        m.label(),
        f"{m.workload.isl} in / {m.workload.osl} out, prefix hits {100 * m.workload.prefix_hit:.0f} %, load {load_text(m.load)}",
        said,
        "",
        rates,
        _latency("TTFT", r.ttft),
        _latency("TPOT", r.tpot),
        _latency("ITL", r.itl),
        _latency("E2E", r.e2e),
        f"{done} completed, {failed} failed, {figure(r.duration_s)} s",
        "",
        f"from {origin.file} {origin.position} ({origin.format.value}), sha256 {origin.raw_sha256[:12]}",
    ]
    if origin.supplied:
        lines.append("stated by you: " + ", ".join(f"{k} {v}" for k, v in origin.supplied.items()))
    if origin.note:
        lines.append(f"note: {origin.note}")
    lines.extend(f"flag: {f.value}" for f in m.flags)
    return tuple(lines)


def _latency(name: str, value: Latency) -> str:
    if not value.known:
        return f"{name} –"
    parts = {
        "mean": value.mean_ms,
        "p50": value.p50_ms,
        "p90": value.p90_ms,
        "p95": value.p95_ms,
        "p99": value.p99_ms,
    }
    return f"{name} ms: " + ", ".join(f"{k} {figure(v)}" for k, v in parts.items() if v is not None)


def compared_lines(first: Measurement, second: Measurement) -> tuple[str, ...]:
    """Two measurements: what differs in the set-up, then figures with percentages against the first."""
    setup = (
        ("model", first.model, second.model),
        ("GPU", first.gpu, second.gpu),
        ("plan", first.label(), second.label()),
        (
            "shape",
            f"{first.workload.isl}/{first.workload.osl}",
            f"{second.workload.isl}/{second.workload.osl}",
        ),
        ("load", load_text(first.load), load_text(second.load)),
        (
            "engine",
            f"{first.engine.value} {first.engine_version}",
            f"{second.engine.value} {second.engine_version}",
        ),
    )
    lines = [f"{name:<12}{a}  |  {b}" for name, a, b in setup if a != b] or ["same set-up"]
    a, b = first.result, second.result
    figures = (
        ("tok/s/GPU", a.output_tok_s_per_gpu, b.output_tok_s_per_gpu),
        ("TTFT ms", a.ttft.typical_ms, b.ttft.typical_ms),
        ("TPOT ms", a.tpot.typical_ms, b.tpot.typical_ms),
        ("E2E ms", a.e2e.typical_ms, b.e2e.typical_ms),
    )
    for name, x, y in figures:
        percent = change(y, x) if x is not None and y is not None else "–"
        lines.append(f"{name:<12}{figure(x)}  |  {figure(y)}  {percent}")
    return tuple(lines)
