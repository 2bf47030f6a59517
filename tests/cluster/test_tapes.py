"""The fake API server answers as a Kubernetes 1.36 server was recorded to answer."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from tapes import CRDS, TAPES, Player, load, load_crds

from console.cluster.fake import discovery
from console.cluster.fake.resources import from_crd
from console.cluster.fake.rules import available
from console.cluster.fake.server import FakeServer
from console.cluster.fake.store import Store

pytestmark = pytest.mark.skipif(
    not TAPES.exists() or not CRDS.exists() or not available(), reason="needs the recordings and a CEL engine"
)
LWS = ("leaderworkerset.x-k8s.io", "leaderworkersets")
Work = Callable[[Player, FakeServer], Awaitable[None]]


def play(work: Work) -> list[str]:
    """Run `work` with a player against a fresh server; returns all differences."""

    async def run() -> list[str]:
        server = FakeServer(crds=load_crds(), builtins=(), store=Store(first_version=20))
        base = await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                player = Player(base, session)
                await work(player, server)
                return player.problems
        finally:
            await server.stop()

    return asyncio.run(run())


@pytest.mark.parametrize(
    "tape", ["01_discovery", "02_server_side_apply", "06_objects_and_errors", "07_table_and_metadata"]
)
def test_kubernetes_1_36_tape(tape: str) -> None:
    async def work(player: Player, server: FakeServer) -> None:
        await player.play(load(tape))

    assert play(work) == []


def test_lists_and_paging() -> None:
    tape = load("04_list_and_paging")
    expired = next(i for i, e in enumerate(tape) if e["id"] == "expired-page-1")

    async def work(player: Player, server: FakeServer) -> None:
        await player.play(load("04_setup"))
        await player.play(tape[:expired])

    assert play(work) == []


def test_a_continue_token_expires_with_compaction() -> None:
    tape = load("04_list_and_paging")
    expired = next(i for i, e in enumerate(tape) if e["id"] == "expired-page-1")

    async def work(player: Player, server: FakeServer) -> None:
        await player.play(load("05_watch")[:2])
        player.bound.clear()
        first, rest = tape[expired], tape[expired + 1 :]
        await player.exchange(first)
        for name in ("a", "b"):
            await annotate(player, name)
        server.store.compact()
        await player.play(rest)

    assert play(work) == []


async def annotate(player: Player, name: str) -> None:
    path = f"/apis/{LWS[0]}/v1/namespaces/default/{LWS[1]}/{name}?fieldManager=tester"
    body = json.dumps({"metadata": {"annotations": {"i": "0"}}})
    async with player.session.patch(
        player.base + path, data=body, headers={"Content-Type": "application/merge-patch+json"}
    ) as response:
        assert response.status == 200


def test_watches() -> None:
    tape = load("05_watch")
    compacted = next(i for i, e in enumerate(tape) if e["id"] == "list-exact-compacted-plain-410")

    async def work(player: Player, server: FakeServer) -> None:
        await player.play(tape[:compacted])
        # The recorded server's cache held these versions after etcd had dropped them.
        await annotate(player, "b")
        server.store.compact()
        await player.exchange(tape[compacted])
        await player.play(tape[compacted + 1 :])

    assert play(work) == []


def test_documents_list_what_stripped_schemas_give() -> None:
    """Paths, kinds and parameters of the OpenAPI documents; the schemas themselves are the CRDs' own."""
    for crd in load_crds():
        for res in from_crd(crd):
            file = TAPES / f"09_openapi_v3_{res.group}_{res.version}.stripped.json.gz"
            if not file.exists():
                continue
            wanted = json.loads(gzip.decompress(file.read_bytes()))
            ours = discovery.openapi(res.group, res.version, [res])
            for path, operations in ours["paths"].items():
                assert path in wanted["paths"], path
                for verb, operation in operations.items():
                    theirs = wanted["paths"][path].get(verb)
                    assert theirs is not None, (path, verb)
                    gvk = "x-kubernetes-group-version-kind"
                    assert operation[gvk] == theirs.get(gvk, operation[gvk])
                    names = {p["name"] for p in theirs.get("parameters", [])}
                    assert {p["name"] for p in operation["parameters"]} - {"pretty"} <= names, (path, verb)


def test_crd_life_cycle() -> None:
    """Deleting a kind deletes its objects, ends its watches without an error, and answers plain 404 afterwards."""
    events: list[dict[str, Any]] = []

    async def work(player: Player, server: FakeServer) -> None:
        pools = f"{player.base}/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools"
        await player.exchange(load("08_crd_lifecycle")[0])
        async with player.session.get(pools, params={"watch": "true"}) as watch:
            events.append(json.loads(await watch.content.readline()))
            server.uninstall("inference.networking.k8s.io", "inferencepools")
            events.append(json.loads(await asyncio.wait_for(watch.content.readline(), 2)))
            assert await asyncio.wait_for(watch.content.read(), 2) == b""
        async with player.session.get(pools) as gone:
            assert (gone.status, await gone.text()) == (404, "404 page not found\n")
        crd = next(c for c in load_crds() if c["spec"]["names"]["kind"] == "InferencePool")
        server.install(crd)
        async with player.session.get(pools) as back:
            assert back.status == 200
            assert (await back.json())["items"] == []

    assert play(work) == []
    assert [e["type"] for e in events] == ["ADDED", "DELETED"]
