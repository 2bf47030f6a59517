"""A recording of a cluster: one JSON line per change, and its replay as a source.

The file starts with a header line. Views are written as they are held, so replaying it gives the same snapshots; no raw
object, environment variable or credential is ever in it. A line cut by a crash ends the replay there.
"""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import IO, Any, Final, Union, get_args, get_origin, get_type_hints

from console.cluster.api import Api
from console.cluster.kinds import KINDS, Kind
from console.cluster.metrics.samples import Histogram, shared_bounds
from console.cluster.state import (
    Change,
    ClusterState,
    Identity,
    MetricsChange,
    ObjectChange,
    Op,
    PickerChange,
    ScrapeChange,
    Snapshot,
    Trust,
)
from planner.domain.errors import InputError, Issue, MissingDataError

SCHEMA: Final = "wideplan.cluster-recording/v1"
_CHANGES: Final[Mapping[str, type[Change]]] = {
    "objects": ObjectChange,
    "scrape": ScrapeChange,
    "picker": PickerChange,
    "metrics": MetricsChange,
}
_NAMES: Final = {cls: name for name, cls in _CHANGES.items()}


# --- plain data and back ---


def to_plain(value: object) -> Any:
    """A view or sample as JSON data; default values are left out."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Histogram):
        return {"le": list(value.bounds), "n": list(value.counts), "sum": value.sum}
    if is_dataclass(value) and not isinstance(value, type):
        out = {}
        for f in fields(value):
            item = getattr(value, f.name)
            if f.default is not MISSING and item == f.default:
                continue
            if f.default_factory is not MISSING and item == f.default_factory():
                continue
            out[f.name] = to_plain(item)
        return out
    if isinstance(value, Mapping):
        return {str(to_plain(k)): to_plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(v) for v in value]
    return value


_HINTS: dict[Any, dict[str, Any]] = {}


def _hints(cls: Any) -> dict[str, Any]:
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    return _HINTS[cls]


def from_plain(value: Any, kind: Any) -> Any:
    """Rebuild a value of type `kind`. Raises ValueError, TypeError or KeyError when it does not fit."""
    if kind is Any or value is None:
        return value
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        inner = [a for a in get_args(kind) if a is not type(None)]
        return from_plain(value, inner[0]) if len(inner) == 1 else value
    if kind is Histogram:
        counts = array("d", value["n"])
        return Histogram(
            shared_bounds(tuple(map(float, value["le"]))), counts, counts[-1], float(value["sum"])
        )
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{k: from_plain(v, hints[k]) for k, v in value.items()})
    if origin is tuple:
        return tuple(from_plain(v, get_args(kind)[0]) for v in value)
    if origin is not None and issubclass(origin, Mapping):
        key, item = get_args(kind)
        return {from_plain(k, key): from_plain(v, item) for k, v in value.items()}
    if kind is float and isinstance(value, int):
        return float(value)
    return value


def _encode(change: Change) -> str:
    body = to_plain(change)
    if isinstance(change, ObjectChange):
        body["views"] = [to_plain(v) for v in change.views]
    return json.dumps({"change": _NAMES[type(change)], **body}, separators=(",", ":"))


def _decode(line: str) -> Change:
    body = json.loads(line)
    cls = _CHANGES[body.pop("change")]
    if cls is ObjectChange:
        kind = Kind(body["kind"])
        views = tuple(from_plain(v, KINDS[kind].view) for v in body.pop("views", ()))
        return replace(
            ObjectChange(at=float(body["at"]), kind=kind, op=Op(body["op"])),
            views=views,
            key=body.get("key", ""),
            trust=Trust(body.get("trust", Trust.LIVE)),
            why=body.get("why", ""),
        )
    hints = _hints(cls)
    made: Change = cls(**{k: from_plain(v, hints[k]) for k, v in body.items()})
    return made


# --- writing ---


class Recorder:
    """Writes every change of a source to a file, starting from what it holds now."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        try:
            self._file: IO[str] = path.open("x", encoding="utf-8")
        except FileExistsError:
            raise InputError(
                Issue(
                    code="cluster.record_exists",
                    what=f"{path} exists",
                    why="a recording is never written over",
                    fix="name another file",
                    where="FILE",
                )
            ) from None
        except OSError as error:
            raise InputError(
                Issue(
                    code="cluster.record_unwritable",
                    what=f"cannot write {path}",
                    why=error.strerror or str(error),
                    fix="name a file in a folder that exists and is writable",
                    where="FILE",
                )
            ) from None
        self.changes = 0
        identity = snapshot.identity
        header = {"schema": SCHEMA, "started": snapshot.now, "context": identity.context, "server": identity.server,
                  "namespace": identity.namespace}  # fmt: skip
        self._file.write(json.dumps(header) + "\n")
        for kind, state in snapshot.kinds.items():
            at = state.contact or snapshot.now
            if state.trust in (Trust.LIVE, Trust.STALE, Trust.RECONNECTING):
                self(ObjectChange(at=at, kind=kind, op=Op.LISTED, views=tuple(state.objects.values())))
            if state.trust is not Trust.LIVE:
                self(ObjectChange(at=at, kind=kind, op=Op.TRUST, trust=state.trust, why=state.why))

    def __call__(self, change: Change) -> None:
        """Write one change."""
        self._file.write(_encode(change) + "\n")
        self.changes += 1

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


# --- replay ---


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording in memory: identity, start (wall, s) and changes in order. `cut` says it ends in a broken line."""

    identity: Identity
    started: float
    changes: tuple[Change, ...]
    cut: bool = False

    @property
    def ended(self) -> float:
        """Wall time of the last change (s)."""
        return max((c.at for c in self.changes), default=self.started)


def load_recording(path: Path) -> Recording:
    """Read a recording. Raises MissingDataError ``file.not_found``, InputError ``cluster.recording_invalid``."""
    try:
        with path.open(encoding="utf-8") as file:
            header = _header(file.readline(), path)
            changes, cut = [], False
            for change in _changes(file):
                if change is None:
                    cut = True
                    break
                changes.append(change)
    except FileNotFoundError:
        raise MissingDataError(
            Issue(
                code="file.not_found",
                what=f"{path} is not here",
                why="a recording is read from a file",
                fix="write one with: planner cluster record FILE",
                where="--replay",
            )
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(_invalid(path, str(error))) from None
    identity = Identity(
        source=f"replay of {path.name}",
        context=str(header.get("context") or ""),
        server=str(header.get("server") or ""),
        namespace=header.get("namespace"),
    )
    return Recording(identity, float(header.get("started") or 0.0), tuple(changes), cut)


def _header(line: str, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        raise InputError(_invalid(path, "the first line is not JSON")) from None
    schema = header.get("schema") if isinstance(header, dict) else None
    if schema != SCHEMA:
        raise InputError(_invalid(path, f"its schema is {schema!r}, not {SCHEMA}"))
    return header  # type: ignore[no-any-return]


def _changes(file: IO[str]) -> Iterator[Change | None]:
    for line in file:
        try:
            yield _decode(line)
        except (ValueError, KeyError, TypeError):
            yield None
            return


def _invalid(path: Path, why: str) -> Issue:
    return Issue(
        code="cluster.recording_invalid",
        what=f"{path} is no recording of a cluster",
        why=why,
        fix="name a file written by planner cluster record",
        where="--replay",
    )


class RecordedSource:
    """Replays a recording: at once to its end, or at `speed` times real time."""

    def __init__(
        self,
        recording: Recording,
        *,
        speed: float | None = None,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._recording = recording
        self._speed = speed
        self._sleep = sleep
        self.state = ClusterState(recording.identity)
        self._now = recording.started
        self._change = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def api(self) -> Api | None:
        """A recording has no server."""
        return None

    def subscribe(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` after each change."""
        self.state.subscribe(listener)

    async def start(self) -> None:
        """Apply everything, or begin to play."""
        if self._speed is None:
            for change in self._recording.changes:
                self._apply(change)
        else:
            self._task = asyncio.create_task(self._play(self._speed))

    def _apply(self, change: Change) -> None:
        self.state.apply(change)
        self._now = max(self._now, change.at)
        for kind in Kind:  # signs of life are not on the tape, but every loss of contact is
            if self.state.trust(kind) is Trust.LIVE:
                self.state.contact(kind, self._now)
        self._change.set()

    async def _play(self, speed: float) -> None:
        at = self._recording.started
        for change in self._recording.changes:
            if change.at > at:
                await self._sleep((change.at - at) / speed)
                at = change.at
            self._apply(change)

    async def ready(self, timeout_s: float) -> bool:
        """A recording is ready when started."""
        del timeout_s
        return True

    async def changed(self, timeout_s: float) -> bool:
        """Wait for a change since the last snapshot; False when there is none, or the recording has ended."""
        if self._task is None or self._task.done():
            return self._change.is_set()
        try:
            await asyncio.wait_for(self._change.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    @property
    def ended(self) -> bool:
        """Whether everything was played."""
        return self._task is None or self._task.done()

    def snapshot(self) -> Snapshot:
        """The state at the moment of the recording that was reached."""
        self._change.clear()
        return self.state.snapshot(self._now)

    async def close(self) -> None:
        """Stop playing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
