"""How one server runs: a value made from the command line, that tests make themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL

from console.cluster.source import ClusterSource

DEFAULT_PORT: Final = 8765
DEFAULT_RECIPE: Final = "deepseek-r1-h200x32"
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
MAX_JSON_BYTES: Final = 256 * 1024
MAX_UPLOAD_BYTES: Final = 32 * 1024 * 1024


def _now() -> datetime:
    return datetime.now(tz=UTC)


def _uploads() -> Path:
    from platformdirs import user_data_path

    return user_data_path("wideplan") / "uploads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`hosts` are the names a browser may use; `store` None is the user's own database.

    `cluster` makes the source that is followed; None leaves the cluster page out.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    hosts: tuple[str, ...] = LOOPBACK
    recipe: str = DEFAULT_RECIPE
    profiles: Path | None = None
    store: URL | None = None
    uploads: Path = field(default_factory=_uploads)
    allow_apply: bool = False
    in_cluster: bool = False
    secure_cookie: bool = False
    cluster: Callable[[], ClusterSource] | None = None
    clock: Callable[[], datetime] = _now

    @property
    def cookie(self) -> str:
        """Name of the session cookie; cookies ignore ports, so the port is in the name."""
        prefix = "__Host-" if self.secure_cookie else ""
        return f"{prefix}wideplan-{self.port}"
