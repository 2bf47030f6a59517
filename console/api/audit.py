"""Every action that changes something is written down: who, what, on what."""

from __future__ import annotations

from fastapi import Request

from console.api.state import ConsoleState, viewer_of
from planner.domain.study import AuditEntry, Scalar


def note(state: ConsoleState, request: Request, action: str, subject: str, **detail: Scalar) -> None:
    """Add one entry to the store's audit trail, without secrets."""
    state.store.audit.add(
        AuditEntry(
            actor=f"console:{viewer_of(request).name}",
            action=action,
            subject=state.redactor.text(subject)[:300],
            detail={k: state.redactor.text(v) if isinstance(v, str) else v for k, v in detail.items()},
            at=state.settings.clock(),
        )
    )
