"""Whatever the document allows, and what it does not, never ends in an error of ours."""

from __future__ import annotations

from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis")

from console.api.routes.pages import PAGES  # noqa: E402

SLOW = {
    "/api/v1/simulation",
    "/api/v1/experiments/{name}",
    "/api/v1/calibration",
    "/api/v1/accuracy",
    "/api/v1/events",
}
RECIPE = "gpt-oss-120b-h200x8"


def test_every_document_is_described_and_every_answer_is_a_model(console: Any) -> None:
    document = console.get("/api/v1/openapi.json").json()
    assert len(document["paths"]) >= 25
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), (method, path)
            success = next(v for k, v in operation["responses"].items() if k.startswith("2"))
            content = success.get("content", {}).get("application/json", {}).get("schema", {})
            if path not in {"/api/v1/events", "/api/v1/plan.json", "/api/v1/recommendation"}:
                assert "$ref" in content, (method, path)
    assert all(p.path not in document["paths"] for p in PAGES)


def test_no_request_ends_in_an_error_of_ours(console: Any) -> None:
    from hypothesis import HealthCheck, Phase, given, settings

    schema = schemathesis.openapi.from_dict(console.get("/api/v1/openapi.json").json())
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in SLOW:
            continue

        @given(case=operation.as_strategy())
        @settings(
            max_examples=8, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def check(case: Any) -> None:
            nonlocal tried
            tried += 1
            query = dict(case.query or {})
            for key in ("model", "gpu", "node", "prefill_gpu"):
                query.pop(key, None)  # a made-up name is refused early: the rest would never be reached
            if any(p.get("name") == "recipe" for p in case.operation.definition.raw.get("parameters", [])):
                query["recipe"] = RECIPE
            body = (
                case.body
                if isinstance(case.body, dict | list | str | int | float | bool) or case.body is None
                else None
            )
            sent: dict[str, Any] = {"params": _flat(query)}
            if case.method.upper() == "POST" and "/uploads/" in case.path:
                sent |= {"content": b"{}", "headers": {"content-type": "application/octet-stream"}}
            elif case.method.upper() == "POST":
                if isinstance(body, dict) and "question" in body:
                    body = {**body, "question": {"model": "nobody/nothing"}}  # no search is really started
                sent |= {"json": body}
            answer = console.ask(case.method, case.formatted_path, **sent)
            assert answer.status_code < 500, (case.method, case.formatted_path, sent, answer.text)

        check()
    assert tried > 100


def _flat(query: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (key, str(one))
        for key, value in query.items()
        for one in (value if isinstance(value, list) else [value])
    ]
