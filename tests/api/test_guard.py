"""Nobody gets in without a login, from another site or under another name: every route, every method."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from console.api.guard import METHODS, OPEN

ALL_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PURGE")
JSON = {"content-type": "application/json"}


def _paths(routes: Any) -> Iterator[str]:
    for route in routes:
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        if inner is not None and hasattr(inner, "routes"):
            yield from _paths(inner.routes)
        elif hasattr(route, "path"):
            yield re.sub(r"\{[^}]*\}", "x", route.path)


def _all_paths(console: Any) -> list[str]:
    found = sorted(set(_paths(console.app.inner.routes)))
    assert len(found) >= 12
    assert {"/", "/login", "/api/v1/frontier", "/api/v1/openapi.json"} <= set(found)
    return found


def test_without_login_every_route_and_method_is_refused(console: Any) -> None:
    for path in _all_paths(console):
        for method in ALL_METHODS:
            status = console.ask(method, path, login=False, headers=JSON).status_code
            if path in OPEN and method in {"GET", "HEAD"}:
                assert status in {200, 405}, (method, path)
            else:
                assert status in {401, 403, 405, 415}, (method, path)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example:8765", "0.0.0.0:8765",
        "127.0.0.1@evil.example", "", "[::1].evil.example", "169.254.169.254",
    ],
)  # fmt: skip
def test_other_host_names_are_refused_on_every_route_and_method(console: Any, host: str) -> None:
    for path in _all_paths(console):
        if path == "/healthz":
            continue
        for method in ALL_METHODS:
            answer = console.ask(method, path, headers={"host": host, **JSON})
            assert answer.status_code == 403, (method, path)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "[::1]:8765", "LOCALHOST"])
def test_own_names_pass_with_any_port(console: Any, host: str) -> None:
    assert console.ask("GET", "/api/v1/openapi.json", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "foreign",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8765"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_requests_made_by_other_sites_are_refused_on_every_api_route_and_method(
    console: Any, foreign: dict[str, str]
) -> None:
    for path in _all_paths(console):
        for method in ALL_METHODS:
            if not path.startswith("/api/") and method in {"GET", "HEAD"} and "sec-fetch-mode" in foreign:
                continue  # a link in a mail may open a page; the page's own cookie is not sent with it
            answer = console.ask(method, path, headers={**foreign, **JSON})
            assert answer.status_code in {403, 405}, (method, path, foreign)
            assert answer.status_code == 403 or method not in METHODS


def test_a_cookie_without_an_origin_changes_nothing(console: Any) -> None:
    cookie = f"{console.settings.cookie}={console.access.redeem(console.access.bearer)}"
    for path in _all_paths(console):
        for method in ("POST", "DELETE"):
            answer = console.ask(method, path, login=False, headers={"cookie": cookie, **JSON})
            assert answer.status_code == 403, (method, path)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_bodies_that_a_foreign_form_can_send_are_refused(console: Any, kind: str) -> None:
    answer = console.ask("POST", "/api/v1/plans", content=b"{}", headers={"content-type": kind})
    assert answer.status_code == 415


def test_a_body_is_bounded_whatever_it_says(console: Any) -> None:
    big = b"[" + b" " * 300_000 + b"]"
    assert console.ask("POST", "/api/v1/plans", content=big, headers=JSON).status_code == 413

    async def dribble() -> Any:
        for _ in range(40):
            yield b" " * 10_000

    answer = console.ask("POST", "/api/v1/plans", content=dribble(), headers=JSON)
    assert 400 <= answer.status_code < 500


def test_wrong_tokens_are_refused(console: Any) -> None:
    right = console.access.bearer
    for header in (
        f"Bearer {right[:-1]}",
        f"Bearer {right}x",
        f"Basic {right}",
        "Bearer",
        f"Bearer  {right} x",
        right,
    ):
        answer = console.ask("GET", "/api/v1/frontier", login=False, headers={"authorization": header})
        assert answer.status_code == 401, header
    for cookie in (f"{console.settings.cookie}={right}", "wideplan-1=x", f"{console.settings.cookie}="):
        answer = console.ask("GET", "/", login=False, headers={"cookie": cookie})
        assert answer.status_code == 401, cookie


def test_the_address_works_once_and_leaves_no_token_behind(console: Any) -> None:
    token = console.access.login
    assert console.ask("HEAD", f"/login?token={token}", login=False).status_code == 405
    first = console.ask("GET", f"/login?token={token}", login=False)
    assert first.status_code == 303
    assert first.headers["location"] == "/"
    cookie = first.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert cookie.startswith("wideplan-8765=")
    assert token not in cookie
    again = console.ask("GET", f"/login?token={token}", login=False)
    assert again.status_code == 401
    assert token not in again.text
    page = console.ask("GET", "/", login=False, headers={"cookie": cookie.split(";")[0]})
    assert page.status_code == 200


def test_every_answer_carries_the_policy(console: Any) -> None:
    for path, login in (
        ("/", True),
        ("/", False),
        ("/login", False),
        ("/api/v1/frontier?isl=x", True),
        ("/nowhere", True),
    ):
        answer = console.ask("GET", path, login=login)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "'unsafe-eval'" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


def test_pages_hold_no_inline_script(console: Any) -> None:
    from console.api.routes.pages import PAGES

    for page in PAGES:
        text = console.get(page.path).text
        for tag in re.findall(r"<script[^>]*>", text):
            assert "src=" in tag or 'type="application/json"' in tag, tag
        assert not re.search(r"\son\w+\s*=", text)
        assert "http://" not in text
        assert "https://" not in text


def test_files_outside_the_client_are_not_served(console: Any) -> None:
    for name in (
        "../templates/page.html",
        "..%2f..%2fapi%2fapp.py",
        "%2e%2e/__init__.py",
        "/etc/passwd",
        "js",
    ):
        assert console.get(f"/static/x/{name}").status_code == 404, name


def test_our_own_failure_says_a_number_and_nothing_else(
    console: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import console.api.routes.plans as plans

    def broken(*_: object) -> None:
        msg = f"secret path /root/x, Authorization: Bearer {console.access.bearer}, hf_abcdefghijkl"
        raise RuntimeError(msg)

    monkeypatch.setattr(plans, "_compare", broken)
    with caplog.at_level(logging.ERROR, logger="wideplan.console"):
        answer = console.get("/api/v1/compare", recipe="gpt-oss-120b-h200x8", points=[0, 1])
    assert answer.status_code == 500
    assert answer.json()["issues"][0]["code"] == "console.bug"
    assert "/root/x" not in answer.text
    number = answer.json()["issues"][0]["what"].split()[-1]
    assert number in caplog.text
    assert console.access.bearer not in caplog.text
    assert "hf_abcdefghijkl" not in caplog.text
