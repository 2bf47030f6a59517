"""Canary secrets: sent in by every door, and looked for in the log, the database, the stream and every page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from console_client import make_console

from console.api.redact import HIDDEN, Redactor
from console.api.routes.events import _lines

CANARY = "hf_CanaryCanaryCanary12345"
PASSWORD = "canarypassword98765"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Any]:
    yield from make_console(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {CANARY}", f"authorization='bearer {CANARY}'", f"GET /x?token={CANARY}&y=1",
        f"postgresql://user:{CANARY}@host/db", f'{{"token": "{CANARY}"}}', f"HF_TOKEN={CANARY}", f"password={CANARY}",
        f"model {CANARY} not found", f"'HF_TOKEN': '{CANARY}'", f"a?access_token={CANARY}", f"HF_TOKEN: {CANARY}",
    ],
)  # fmt: skip
def test_secrets_are_hidden_wherever_they_stand(text: str) -> None:
    shown = Redactor().text(text)
    assert CANARY not in shown
    assert HIDDEN in shown


def test_known_secrets_and_json_web_tokens_are_hidden() -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0abc.c2lnbmF0dXJlc2ln"
    assert Redactor(["very-own-secret"]).text(f"x very-own-secret {token} y") == f"x {HIDDEN} {HIDDEN} y"


def test_plain_words_stay() -> None:
    text = "127 tokens=8192, tok/s/user, hf_hub, https://host:443/x, the token bucket"
    assert Redactor().text(text) == text


def test_no_canary_comes_out_anywhere(fresh: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    secrets = [*fresh.access.secrets, CANARY, PASSWORD]
    texts: list[str] = []
    with caplog.at_level(logging.DEBUG):
        pages = ("/", "/new", "/studies", "/measurements", "/login", "/plan")
        texts.extend(fresh.get(path).text for path in pages)
        for query in ({"model": CANARY}, {"filter": f"token={CANARY}"}, {"recipe": f"x?password={PASSWORD}"}):
            paths = ("/api/v1/frontier", "/api/v1/form/check", "/api/v1/why-not", "/api/v1/plan")
            texts.extend(fresh.get(path, **query, text=f"password={PASSWORD}").text for path in paths)
        body = {"question": {"model": CANARY}, "name": "x", "level": "analytic"}
        texts.append(fresh.ask("POST", "/api/v1/studies", json=body).text)
        binary = {"content-type": "application/octet-stream"}
        for kind in ("model", "measurements", "points"):
            answer = fresh.ask(
                "POST", f"/api/v1/uploads/{kind}", content=f'{{"HF_TOKEN": "{CANARY}"}}'.encode(), headers=binary,
                params={"name": f"{CANARY}.json"},
            )  # fmt: skip
            texts.append(answer.text)
        texts.append(fresh.get("/api/v1/audit").text)
        texts.append(fresh.ask("GET", f"/login?token={PASSWORD}", login=False).text)

        async def first_event() -> str:
            state = fresh.app.inner.state.console
            lines = _lines(state.hub, ("studies",), "")
            await anext(lines)
            event = await asyncio.wait_for(anext(lines), 3.0)
            await lines.aclose()
            return event

        texts.append(fresh.run(first_event))
    for secret in secrets:
        for text in texts:
            assert secret not in text
        assert secret not in "\n".join(r.getMessage() for r in caplog.records if r.name != "httpx")
        for file in tmp_path.rglob("*"):
            if file.is_file():
                assert secret.encode() not in file.read_bytes(), file
