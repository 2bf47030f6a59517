"""Secrets out of everything that is logged, stored or sent: one place, used by all."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final

HIDDEN: Final = "[hidden]"
_PATTERNS: Final = (
    re.compile(r"(?i)(authorization\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[^\s'\",;]+"),
    re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?i)([?&;\s'\"](?:token|access_token|api_key|apikey|password|passwd|secret)=)[^\s&'\";]+"),
    re.compile(
        r"(?i)(['\"](?:token|password|secret|api_key|client_secret|HF_TOKEN)['\"]\s*:\s*['\"])[^'\"]+"
    ),
    re.compile(r"(://[^/\s:@]*:)[^@\s/]+(?=@)"),
    re.compile(r"()\bhf_[A-Za-z0-9]{8,}"),
    re.compile(r"(\bHF_TOKEN\s*[:=]\s*)\S+"),
    re.compile(r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JSON web tokens
)
_WORK_FOLDER: Final = re.compile(r"[^\s'\"(]*/wideplan-\w{8}/")  # where an upload lies while it is read


class Redactor:
    """Replaces known secrets and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = (), *, places: Mapping[str, str] | None = None) -> None:
        self._places = sorted((places or {}).items(), key=lambda item: len(item[0]), reverse=True)
        self._secrets = sorted((s for s in secrets if len(s) >= 8), key=len, reverse=True)

    def text(self, value: str) -> str:
        """`value` without secrets, and with `places` (folders of this machine) under their names."""
        for secret in self._secrets:
            value = value.replace(secret, HIDDEN)
        for pattern in _PATTERNS:
            value = pattern.sub(lambda m: f"{m[1]}{HIDDEN}", value)
        value = _WORK_FOLDER.sub("", value)
        for path, name in self._places:
            value = value.replace(path, name)
        return value


class RedactingFilter(logging.Filter):
    """Redacts the finished text of every log record, tracebacks included."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; nothing is dropped."""
        record.msg = self._redactor.text(record.getMessage())
        record.args = ()
        if record.exc_info:
            # formatted here, so that the redacted text is what every handler writes
            record.exc_text = self._redactor.text(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True
