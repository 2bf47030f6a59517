"""What `planner demo` shows, and where it unpacks it: a folder of its own, so that the user's records stay untouched."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planner.domain.errors import Issue, MissingDataError

RECIPE: Final = "deepseek-r1-h200x32"
STUDY: Final = "demo"
CLUSTER: Final = "demo-cluster.jsonl"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The demo on disk: a database with the study, and the recording of the cluster."""

    database_url: str
    recording: Path


def demo_folder() -> Path:
    """Folder of the shipped demo. Raises MissingDataError ``data.missing``."""
    from planner.catalog.locate import data_root

    return data_root() / "profiles" / "demo"


@contextmanager
def unpacked() -> Iterator[Unpacked]:
    """The demo in a temporary folder, with ``WIDEPLAN_DATABASE_URL`` set to it until the end.

    Child processes see the same database. Raises MissingDataError ``demo.missing``.
    """
    import tempfile

    from planner.storage.bundle import load_studies
    from planner.storage.database import URL_VARIABLE, parse_url
    from planner.storage.store import open_store

    study, cluster = _read(f"{STUDY}-study.json.gz"), _read(f"{CLUSTER}.gz")
    with tempfile.TemporaryDirectory(prefix="wideplan-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'demo.db'}"
        with open_store(parse_url(url)) as store:
            load_studies(store, study.decode())
        recording = folder / CLUSTER
        recording.write_bytes(cluster)
        before = os.environ.get(URL_VARIABLE)
        os.environ[URL_VARIABLE] = url
        try:
            yield Unpacked(url, recording)
        finally:
            if before is None:
                del os.environ[URL_VARIABLE]
            else:
                os.environ[URL_VARIABLE] = before


def _read(name: str) -> bytes:
    path = demo_folder() / name
    try:
        content, why = gzip.decompress(path.read_bytes()), "it is empty"
    except (OSError, EOFError) as error:
        content, why = b"", str(error)
    if not content:
        raise MissingDataError(
            Issue(
                code="demo.missing",
                what=f"{path} cannot be read",
                why=why,
                fix="reinstall wideplan, or run from a complete checkout",
            )
        )
    return content
