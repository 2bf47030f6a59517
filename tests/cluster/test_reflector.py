"""The reflector, step by step against a scripted server."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Memory, ScriptedApi, bookmark, event, expired, listing, pod, reflector

from console.cluster.api import ApiError
from console.cluster.objects import PodView
from console.cluster.reflector import Outcome

CUT = ApiError(0, "Disconnected", "the connection was cut")


def run(api: ScriptedApi, sink: Memory, steps: int, **timing: float) -> list[tuple[Outcome, float]]:
    async def work() -> list[tuple[Outcome, float]]:
        made = reflector(api, sink, **timing)
        return [await made.step() for _ in range(steps)]

    return asyncio.run(work())


def test_lists_in_pages_then_watches_from_the_version_of_the_list() -> None:
    api = ScriptedApi(
        lists=[listing(pod("a", "1"), version="7", token="next"), listing(pod("b", "2"), version="7")],
        watches=[[event("ADDED", pod("c", "8")), event("DELETED", pod("a", "9"))]],
    )
    sink = Memory()
    assert [o for o, _ in run(api, sink, 2)] == [Outcome.LISTED, Outcome.WATCHED]
    assert sorted(sink.held) == ["ns/b", "ns/c"]
    assert api.queries[0]["limit"] == "500"
    assert api.queries[1]["continue"] == "next"
    assert api.queries[2]["resourceVersion"] == "7"
    assert api.queries[2]["allowWatchBookmarks"] == "true"
    assert 60 <= int(api.queries[2]["timeoutSeconds"]) <= 75


def test_bookmarks_move_the_version_without_touching_objects() -> None:
    api = ScriptedApi(lists=[listing(pod("a", "1"), version="1")], watches=[[bookmark("50")], []])
    sink = Memory()
    run(api, sink, 3)
    assert api.queries[2]["resourceVersion"] == "50"
    assert list(sink.held) == ["ns/a"]


@pytest.mark.parametrize("how", [[expired()], ApiError(410, "Expired", "too old resource version")])
def test_410_in_the_stream_or_as_a_status_lists_again_and_deletes_what_vanished(how: object) -> None:
    api = ScriptedApi(
        lists=[listing(pod("a", "1"), pod("b", "1"), version="1"), listing(pod("b", "5"), version="6")],
        watches=[how, []],
    )
    sink = Memory()
    outcomes = run(api, sink, 4)
    assert [o for o, _ in outcomes][:3] == [Outcome.LISTED, Outcome.EXPIRED, Outcome.LISTED]
    assert outcomes[1][1] == 0.0  # the first 410 is answered at once
    assert sink.deleted == ["ns/a"]
    assert api.queries[-1]["resourceVersion"] == "6"


def test_an_expired_page_starts_the_list_over() -> None:
    gone = ApiError(410, "Expired", "continue")
    api = ScriptedApi(
        lists=[listing(pod("a", "1"), version="1", token="t"), gone, listing(pod("b", "2"), version="3")],
        watches=[],
    )
    sink = Memory()
    assert run(api, sink, 1) == [(Outcome.LISTED, 0.0)]
    assert list(sink.held) == ["ns/b"]


def test_a_cut_connection_resumes_from_the_last_version() -> None:
    api = ScriptedApi(
        lists=[listing(version="1")],
        watches=[[event("ADDED", pod("a", "4")), CUT], [event("ADDED", pod("b", "5"))]],
    )
    sink = Memory()
    outcomes = run(api, sink, 3)
    assert outcomes[1][0] is Outcome.FAILED
    assert outcomes[1][1] > 0
    assert api.queries[2]["resourceVersion"] == "4"
    assert sorted(sink.held) == ["ns/a", "ns/b"]


def test_garbage_in_the_stream_is_a_failure_not_a_crash() -> None:
    api = ScriptedApi(
        lists=[listing(version="1")], watches=[[b'{"type": "ADD'], [b"[]", event("ADDED", pod("a", "3"))]]
    )
    sink = Memory()
    assert [o for o, _ in run(api, sink, 3)] == [Outcome.LISTED, Outcome.FAILED, Outcome.WATCHED]
    assert list(sink.held) == ["ns/a"]


def test_failures_back_off_exponentially_with_jitter_and_success_resets() -> None:
    api = ScriptedApi(lists=[CUT] * 9 + [listing(version="1")], watches=[CUT])
    waits = [w for _, w in run(api, Memory(), 11)]
    for i, wait in enumerate(waits[:9]):
        ceiling = min(30.0, 0.5 * 2.0**i)
        assert ceiling / 2 <= wait <= ceiling
    assert waits[9] == 0.0
    assert waits[10] <= 0.5


def test_a_watch_that_ends_at_once_does_not_spin() -> None:
    """A proxy that closes every stream: 200 with nothing in it."""
    api = ScriptedApi(lists=[listing(version="1")], watches=[[] for _ in range(8)])
    waits = [w for _, w in run(api, Memory(), 9, step=0.01)][1:]
    assert all(w > 0 for w in waits)
    assert sum(waits) > 20


def test_repeated_410_backs_off() -> None:
    api = ScriptedApi(lists=[listing(version="1"), ApiError(410, "Expired", "x"), ApiError(410, "Expired", "x"),
                             ApiError(410, "Expired", "x"), listing(version="2")], watches=[[expired()]])  # fmt: skip
    outcomes = run(api, Memory(), 4)
    assert [o for o, _ in outcomes] == [Outcome.LISTED, Outcome.EXPIRED, Outcome.EXPIRED, Outcome.LISTED]
    assert outcomes[2][1] > 0


def test_retry_after_is_honoured_and_denials_are_asked_rarely() -> None:
    busy = ApiError(429, "TooManyRequests", "storage is (re)initializing", retry_after_s=7.0)
    denied = ApiError(403, "Forbidden", "no")
    waits = [w for _, w in run(ScriptedApi(lists=[busy, denied]), Memory(), 2)]
    assert waits[0] >= 7.0
    assert waits[1] >= 45.0


def test_a_watch_refused_for_its_version_lists_again() -> None:
    api = ScriptedApi(
        lists=[listing(version="1"), listing(version="2")],
        watches=[ApiError(400, "BadRequest", "version"), []],
    )
    assert [o for o, _ in run(api, Memory(), 3)] == [Outcome.LISTED, Outcome.FAILED, Outcome.LISTED]


def test_lists_again_after_a_while_even_when_the_watch_is_quiet() -> None:
    """A server restored from a backup answers an old version with silence."""
    api = ScriptedApi(
        lists=[listing(pod("a", "1"), version="9"), listing(version="2")], watches=[[bookmark("9")]]
    )
    sink = Memory()
    outcomes = run(api, sink, 3, relist_s=25.0)
    assert outcomes[-1][0] is Outcome.LISTED
    assert sink.held == {}


def test_a_list_without_a_version_is_refused() -> None:
    api = ScriptedApi(lists=[{"items": [], "metadata": {}}])
    sink = Memory()
    assert run(api, sink, 1)[0][0] is Outcome.FAILED
    assert sink.failures[0].reason == "NoVersion"


NAMES = st.sampled_from("abcd")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, str]]:
    return draw(
        st.lists(
            st.tuples(st.sampled_from(["put", "delete", "cut", "expire", "bookmark"]), NAMES), max_size=30
        )
    )


@given(histories())
@settings(max_examples=150, deadline=None)
def test_after_any_history_the_sink_holds_what_the_server_holds(history: list[tuple[str, str]]) -> None:
    """Whatever is cut or expired on the way, and whatever changes meanwhile, the state converges."""
    truth: dict[str, dict[str, object]] = {}
    version = 1
    lists, watches, lines = [listing(version="1")], list[object](), list[object]()
    for kind, name in history:
        version += 1
        if kind == "put":
            verb = "MODIFIED" if name in truth else "ADDED"
            truth[name] = pod(name, str(version))
            lines.append(event(verb, truth[name]))
        elif kind == "delete" and name in truth:
            lines.append(
                event("DELETED", {**truth.pop(name), "metadata": pod(name, str(version))["metadata"]})
            )
        elif kind == "bookmark":
            lines.append(bookmark(str(version)))
        elif kind == "cut":
            watches.append([*lines, CUT])
            lines = []
        elif kind == "expire":
            watches.append([expired()])  # everything since is lost, only the new list shows it
            lists.append(listing(*truth.values(), version=str(version)))
            lines = []
    watches.append(lines)
    sink = Memory()
    api = ScriptedApi(lists=lists, watches=watches)
    run(api, sink, len(lists) + len(watches))
    assert sorted(sink.held) == sorted(f"ns/{n}" for n in truth)
    for name, raw in truth.items():
        view = sink.held[f"ns/{name}"]
        assert isinstance(view, PodView)
        assert view.meta.name == json.loads(json.dumps(raw))["metadata"]["name"]
