"""Finding the parts of an export, and the registry of planted faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.export.lint import Severity

Objects = list[dict[str, Any]]


@dataclass(frozen=True)
class Fault:
    rule: str
    name: str
    base: str
    plant: Callable[[Objects], None]
    severity: Severity | None = None
    lws_version: tuple[int, ...] | None = None


FAULTS: list[Fault] = []


def fault(
    rule: str,
    base: str = "pd",
    severity: Severity | None = None,
    lws_version: tuple[int, ...] | None = None,
) -> Callable[[Callable[[Objects], None]], Callable[[Objects], None]]:
    def register(plant: Callable[[Objects], None]) -> Callable[[Objects], None]:
        FAULTS.append(Fault(rule, plant.__name__, base, plant, severity, lws_version))
        return plant

    return register


# --- finding the parts ---


def the(objects: Objects, kind: str) -> dict[str, Any]:
    return next(o for o in objects if o["kind"] == kind)


def role(objects: Objects, name: str) -> dict[str, Any]:
    return next(dict(r) for r in the(objects, "DisaggregatedSet")["spec"]["roles"] if r["name"] == name)


def lws(objects: Objects, name: str = "decode") -> dict[str, Any]:
    for o in objects:
        if o["kind"] == "LeaderWorkerSet":
            return dict(o)["spec"]  # type: ignore[no-any-return]
        if o["kind"] == "Deployment" and not o["metadata"]["name"].endswith("-epp"):
            return dict(o)["spec"]  # type: ignore[no-any-return]
    return role(objects, name)["spec"]  # type: ignore[no-any-return]


def template(objects: Objects, name: str = "decode") -> dict[str, Any]:
    spec = lws(objects, name)
    return (
        spec["leaderWorkerTemplate"]["workerTemplate"] if "leaderWorkerTemplate" in spec else spec["template"]
    )


def pod(objects: Objects, name: str = "decode") -> dict[str, Any]:
    return template(objects, name)["spec"]  # type: ignore[no-any-return]


def engine(objects: Objects, name: str = "decode") -> dict[str, Any]:
    return pod(objects, name)["containers"][0]  # type: ignore[no-any-return]


def edit(objects: Objects, old: str, new: str, name: str = "decode") -> None:
    script = engine(objects, name)["args"][0]
    assert old in script, old
    engine(objects, name)["args"][0] = script.replace(old, new)


def add_flag(objects: Objects, flag: str, name: str = "decode") -> None:
    edit(objects, " \\\n  --tensor-parallel-size", f" \\\n  {flag} \\\n  --tensor-parallel-size", name)


def env(objects: Objects, key: str, value: str | None, name: str = "decode") -> None:
    container = engine(objects, name)
    container["env"] = [e for e in container["env"] if e["name"] != key]
    if value is not None:
        container["env"].append({"name": key, "value": value})


def resource(objects: Objects, key: str, value: str | None, name: str = "decode") -> None:
    for kind in ("limits", "requests"):
        table = engine(objects, name)["resources"][kind]
        table.pop(key, None)
        if value is not None:
            table[key] = value


def router(objects: Objects, change: Callable[[str], str]) -> None:
    data = the(objects, "ConfigMap")["data"]
    text = change(data["router.yaml"])
    assert text != data["router.yaml"]
    data["router.yaml"] = text
