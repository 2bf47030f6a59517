"""In a cluster: viewers come with their own token, it is never kept, and they see only what they may list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from sqlalchemy.engine import URL

from console.api.app import create_app
from console.api.deployment import console_manifests, console_yaml
from console.api.in_cluster import ApiServer, TokenKeeper
from console.api.settings import Settings
from planner.export.yaml import load_stream

HOST = "console.example.com"
READER, STRANGER, UNKNOWN = "eyJreader.reader.reader1", "eyJstranger.str.str1234", "eyJunknown.unk.unk12345"


class Reviews:
    """The two endpoints of an API server that answer about tokens."""

    def __init__(self) -> None:
        self.users = {READER: "alice", STRANGER: "mallory"}
        self.readers = {"alice"}
        self.asked = 0
        self.down = False

    async def who(self, request: web.Request) -> web.Response:
        self.asked += 1
        user = self._user(request)
        if user is None:
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        body = await request.json()
        assert body["kind"] == "SelfSubjectReview"
        return web.json_response({"status": {"userInfo": {"username": user}}}, status=201)

    async def may(self, request: web.Request) -> web.Response:
        self.asked += 1
        wanted = (await request.json())["spec"]["resourceAttributes"]
        assert wanted == {"verb": "list", "resource": "pods", "group": "", "namespace": "serving"}
        return web.json_response({"status": {"allowed": self._user(request) in self.readers}}, status=201)

    def _user(self, request: web.Request) -> str | None:
        if self.down:
            return None
        return self.users.get(request.headers.get("Authorization", "").removeprefix("Bearer "))


class Inside:
    """A console as in a pod, beside an API server."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.reviews = Reviews()
        self.now = 0.0
        server = web.Application()
        server.router.add_post("/apis/authentication.k8s.io/v1/selfsubjectreviews", self.reviews.who)
        server.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", self.reviews.may)
        self.runner = web.AppRunner(server)
        self.loop.run_until_complete(self.runner.setup())
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        self.loop.run_until_complete(site.start())
        port = self.runner.addresses[0][1]
        keeper = TokenKeeper(
            ApiServer(address=f"http://127.0.0.1:{port}"), namespace="serving", clock=lambda: self.now
        )
        settings = Settings(
            store=URL.create("sqlite", database=str(folder / "s.db")), uploads=folder / "uploads", hosts=(HOST,),
            in_cluster=True, secure_cookie=True,
        )  # fmt: skip
        self.settings = settings
        self.app = create_app(settings, keeper=keeper, reviewer=keeper)
        self.context = self.app.inner.router.lifespan_context(self.app.inner)
        self.loop.run_until_complete(self.context.__aenter__())

    def ask(self, method: str, path: str, token: str | None = None, **kwargs: Any) -> httpx.Response:
        async def run() -> httpx.Response:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            headers |= kwargs.pop("headers", {})
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url=f"https://{HOST}", headers=headers
            ) as client:
                return await client.request(method, path, **kwargs)

        return self.loop.run_until_complete(run())

    def close(self) -> None:
        self.loop.run_until_complete(self.context.__aexit__(None, None, None))
        self.loop.run_until_complete(self.runner.cleanup())
        self.loop.close()


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    made = Inside(tmp_path)
    yield made
    made.close()


def test_only_tokens_that_the_api_server_knows_come_in(inside: Inside) -> None:
    assert inside.ask("GET", "/api/v1/routers").status_code == 401
    assert inside.ask("GET", "/api/v1/routers", UNKNOWN).status_code == 401
    assert inside.ask("GET", "/api/v1/routers", READER).status_code == 200
    for bad in ("x" * 5000, "a b", "\x01"):
        assert (
            inside.ask("GET", "/api/v1/routers", headers={"authorization": f"Bearer {bad}"}).status_code
            == 401
        )


def test_the_cluster_is_shown_to_those_who_could_list_it_themselves(inside: Inside) -> None:
    class Followed:
        def snapshot(self) -> object:
            raise AssertionError("a stranger must not get this far")

    inside.app.inner.state.console.cluster = Followed()
    for path in ("/api/v1/cluster", "/api/v1/cluster/drift?saved=x", "/api/v1/cluster/residuals?saved=x"):
        answer = inside.ask("GET", path, STRANGER)
        assert answer.status_code == 424
        assert answer.json()["issues"][0]["code"] == "cluster.forbidden"
    inside.app.inner.state.console.cluster = None


def test_the_stream_of_the_cluster_is_closed_to_strangers(inside: Inside) -> None:
    async def state() -> str:
        return "{}"

    inside.app.inner.state.console.hub.add("cluster", state, every_s=1.0)
    assert inside.ask("GET", "/api/v1/events?topics=cluster", STRANGER).status_code == 424


def test_one_viewer_never_gets_anothers_answer(inside: Inside) -> None:
    inside.ask("GET", "/api/v1/routers", READER)
    inside.reviews.users = {STRANGER: "mallory"}
    inside.now += 61.0
    assert inside.ask("GET", "/api/v1/routers", READER).status_code == 401


def test_answers_are_remembered_for_a_minute_only(inside: Inside) -> None:
    for _ in range(5):
        inside.ask("GET", "/api/v1/routers", READER)
    assert inside.reviews.asked == 1
    inside.now += 61.0
    inside.reviews.down = True
    assert inside.ask("GET", "/api/v1/routers", READER).status_code == 401


def test_the_form_puts_the_token_into_a_cookie_of_this_host_only(inside: Inside) -> None:
    own = {"origin": f"https://{HOST}"}
    answer = inside.ask("POST", "/login", data={"token": READER}, headers=own)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-wideplan-")
    assert all(part in cookie for part in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"))
    page = inside.ask("GET", "/", headers={"cookie": cookie.split(";")[0]})
    assert page.status_code == 200
    assert READER not in page.text
    assert inside.ask("POST", "/login", data={"token": UNKNOWN}, headers=own).status_code == 401
    assert inside.ask("GET", f"/login?token={READER}").status_code == 200  # never by address
    assert "set-cookie" not in inside.ask("GET", f"/login?token={READER}").headers


def test_tokens_stay_out_of_the_store(inside: Inside, tmp_path: Path) -> None:
    saved = inside.ask(
        "POST", "/api/v1/plans", READER, json={"plan": {"recipe": "gpt-oss-120b-h200x8", "point": 0}}
    )
    assert saved.status_code == 201, saved.text
    entry = inside.ask("GET", "/api/v1/audit", READER).json()["entries"][0]
    assert entry["actor"] == "console:alice"
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert READER.encode() not in file.read_bytes()


def test_the_manifests_run_it_without_rights_to_change_anything() -> None:
    made = console_manifests(namespace="serving", image="registry.example/wideplan:1", hosts=[HOST])
    kinds = [m.kind for m in made]
    assert kinds == [
        "ServiceAccount",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
        "Deployment",
        "Service",
    ]
    rules = [r for m in made if m.kind in {"Role", "ClusterRole"} for r in m.plain()["rules"]]  # type: ignore[union-attr,index]
    assert {v for r in rules for v in r["verbs"]} == {"get", "list", "watch"}  # type: ignore[index,call-overload]
    assert "secrets" not in json.dumps(rules)
    assert "nodes/proxy" not in json.dumps(rules)
    pod = made[5].plain()["spec"]["template"]["spec"]  # type: ignore[index,call-overload]
    security = pod["containers"][0]["securityContext"]  # type: ignore[index,call-overload]
    assert security["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    text = console_yaml(namespace="serving", image="registry.example/wideplan:1", hosts=[HOST])
    assert [d.value["kind"] for d in load_stream(text, source="x")] == kinds
