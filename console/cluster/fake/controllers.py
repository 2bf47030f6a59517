"""What turns sets into pods in the demo cluster: DisaggregatedSet → LeaderWorkerSet → pods on nodes with free GPUs.

One pass over everything (`reconcile`), repeated by `run`. Names, labels and status follow the LWS project's documents; rolling
updates are simplified: pods of an old revision go before those of the new one come.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.cluster.fake.server import FakeServer
from planner.export.values import number

LWS_API, DS_API = "leaderworkerset.x-k8s.io/v1", "disaggregatedset.x-k8s.io/v1"
LWS, DS = "leaderworkerset.sigs.k8s.io/", "disaggregatedset.x-k8s.io/"
POLL_S = 0.1
Obj = Mapping[str, Any]


@dataclass(slots=True)
class Controllers:
    """All controllers of the demo cluster over one server."""

    server: FakeServer
    seen: int = field(default=-1, init=False)
    addresses: int = field(default=0, init=False)
    not_ready: set[str] = field(default_factory=set)  # pod names whose engine never gets ready

    async def run(self) -> None:
        """Reconcile after every change until cancelled."""
        while True:
            self.step()
            await asyncio.sleep(POLL_S)

    def step(self) -> None:
        """Reconcile until nothing changes any more; at most a few passes."""
        for _ in range(6):
            if self.seen == self.server.store.version:
                return
            self.seen = self.server.store.version
            self.reconcile()

    def _list(self, api: str, plural: str) -> list[Obj]:
        return self.server.store.list((api.rpartition("/")[0], plural), None)

    def reconcile(self) -> None:
        """One pass."""
        for ds in self._list(DS_API, "disaggregatedsets"):
            self._roles(ds)
        self._orphans(
            "leaderworkersets", LWS_API, "DisaggregatedSet", self._list(DS_API, "disaggregatedsets")
        )
        for lws in self._list(LWS_API, "leaderworkersets"):
            self._pods(lws, "LeaderWorkerSet", list(_group_pods(lws)))
        for deployment in self._list("apps/v1", "deployments"):
            self._pods(deployment, "ReplicaSet", list(_deployment_pods(deployment)))
        owners = [*self._list(LWS_API, "leaderworkersets"), *self._list("apps/v1", "deployments")]
        self._orphans("pods", "v1", "", owners)
        self._schedule()
        for lws in self._list(LWS_API, "leaderworkersets"):
            self._lws_status(lws)
        for ds in self._list(DS_API, "disaggregatedsets"):
            self._ds_status(ds)
        for deployment in self._list("apps/v1", "deployments"):
            self._deployment_status(deployment)
        for pool in self._list("inference.networking.k8s.io/v1", "inferencepools"):
            self._pool_status(pool)

    def _orphans(self, plural: str, api: str, kind: str, owners: list[Obj]) -> None:
        """Delete what an owner that is gone left behind."""
        alive = {o["metadata"]["uid"] for o in owners}
        for obj in self._list(api, plural):
            refs = obj["metadata"].get("ownerReferences") or ()
            mine = [r for r in refs if r.get("controller") and (not kind or r["kind"] == kind)]
            if mine and mine[0]["uid"] not in alive:
                meta = obj["metadata"]
                self.server.remove(api, plural, meta.get("namespace", ""), meta["name"])

    def _roles(self, ds: Obj) -> None:
        meta, spec = ds["metadata"], ds["spec"]
        revision = _hash([r["spec"]["leaderWorkerTemplate"] for r in spec["roles"]])
        wanted = {}
        for slice_ in range(number(spec.get("slices")) or 1):
            for role in spec["roles"]:
                name = f"{meta['name']}-{slice_}-{revision}-{role['name']}"
                own = {
                    DS + "name": meta["name"],
                    DS + "role": role["name"],
                    DS + "slice": str(slice_),
                    DS + "revision": revision,
                }
                extra = role.get("metadata") or {}
                wanted[name] = {
                    "metadata": {
                        "name": name,
                        "namespace": meta["namespace"],
                        "labels": {**(extra.get("labels") or {}), **own},
                        "annotations": extra.get("annotations") or {},
                        "ownerReferences": [_owner(DS_API, "DisaggregatedSet", meta)],
                    },
                    "spec": role["spec"],
                }
        for lws in self._list(LWS_API, "leaderworkersets"):
            labels = lws["metadata"].get("labels") or {}
            if labels.get(DS + "name") == meta["name"] and lws["metadata"]["namespace"] == meta["namespace"]:
                if lws["metadata"]["name"] not in wanted:
                    self.server.remove(
                        LWS_API, "leaderworkersets", meta["namespace"], lws["metadata"]["name"]
                    )
                elif wanted[lws["metadata"]["name"]]["spec"] == lws["spec"]:
                    del wanted[lws["metadata"]["name"]]
        for lws in wanted.values():
            self.server.put(LWS_API, "leaderworkersets", lws)

    def _pods(self, owner: Obj, kind: str, wanted: list[dict[str, Any]]) -> None:
        names = {p["metadata"]["name"]: p for p in wanted}
        uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
        for pod in self._list("v1", "pods"):
            refs = pod["metadata"].get("ownerReferences") or ()
            if not any(r["uid"] == uid for r in refs):
                continue
            name = pod["metadata"]["name"]
            made = names.get(name)
            if made is None or _hash(made["spec"]) != pod["metadata"]["annotations"].get("wideplan/template"):
                self.server.remove("v1", "pods", namespace, name)
            else:
                del names[name]
        for pod in names.values():
            meta = pod["metadata"]
            meta["namespace"] = namespace
            meta["ownerReferences"] = [
                {**_owner("v1", kind, owner["metadata"]), "name": pod.pop("ownerName")}
            ]
            meta.setdefault("annotations", {})["wideplan/template"] = _hash(pod["spec"])
            self.server.put("v1", "pods", {**pod, "status": {"phase": "Pending"}})

    # --- scheduling and running ---

    def _schedule(self) -> None:
        free: dict[str, int] = {}
        nodes = self._list("v1", "nodes")
        for node in nodes:
            free[node["metadata"]["name"]] = number(node["status"]["allocatable"].get("nvidia.com/gpu")) or 0
        pods = self._list("v1", "pods")
        for pod in pods:
            if pod["spec"].get("nodeName"):
                free[pod["spec"]["nodeName"]] = free.get(pod["spec"]["nodeName"], 0) - _gpus(pod)
        for pod in pods:
            if pod["spec"].get("nodeName"):
                self._ready(pod)
                continue
            need = _gpus(pod)
            node_name = next((n for n, f in free.items() if f >= need), None)
            if node_name is None:
                self._unschedulable(pod, len(nodes))
                continue
            free[node_name] -= need
            self._start(pod, node_name)

    def _start(self, pod: Obj, node: str) -> None:
        self.addresses += 1
        ready = pod["metadata"]["name"] not in self.not_ready
        status = {
            "phase": "Running",
            "podIP": f"10.244.{self.addresses // 250}.{self.addresses % 250 + 1}",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True" if ready else "False"},
            ],
            "containerStatuses": [
                {
                    "name": c["name"],
                    "ready": ready,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {}},
                }
                for c in pod["spec"]["containers"]
            ],
            "initContainerStatuses": [
                {
                    "name": c["name"],
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {}},
                }
                for c in pod["spec"].get("initContainers") or ()
            ],
        }
        self.server.put("v1", "pods", {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})

    def _ready(self, pod: Obj) -> None:
        """Follow a change of `not_ready`."""
        wanted = "False" if pod["metadata"]["name"] in self.not_ready else "True"
        held = next((c for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"), None)
        if held is not None and held["status"] != wanted:
            conditions = [
                {**c, "status": wanted} if c["type"] == "Ready" else c for c in pod["status"]["conditions"]
            ]
            statuses = [{**c, "ready": wanted == "True"} for c in pod["status"].get("containerStatuses", ())]
            status = {**pod["status"], "conditions": conditions, "containerStatuses": statuses}
            self.server.put("v1", "pods", {**pod, "status": status})

    def _unschedulable(self, pod: Obj, nodes: int) -> None:
        if pod["status"].get("conditions"):
            return
        text = f"0/{nodes} nodes are available: {nodes} Insufficient nvidia.com/gpu."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
        self.server.put("v1", "pods", {**pod, "status": {"phase": "Pending", "conditions": [condition]}})
        meta = pod["metadata"]
        about = {"kind": "Pod", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
        event = {
            "metadata": {"name": f"{meta['name']}.unschedulable", "namespace": meta["namespace"]},
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": text,
            "involvedObject": about,
            "count": 1,
            "lastTimestamp": self.server.registry.now(),
        }
        self.server.put("v1", "events", event)

    # --- status ---

    def _owned(self, owner: Obj) -> list[Obj]:
        uid = owner["metadata"]["uid"]
        return [
            p
            for p in self._list("v1", "pods")
            if any(r["uid"] == uid for r in p["metadata"].get("ownerReferences") or ())
        ]

    def _write_status(self, api: str, plural: str, obj: Obj, status: dict[str, Any]) -> None:
        if obj.get("status") != status:
            self.server.put(api, plural, {**obj, "status": status})

    def _lws_status(self, lws: Obj) -> None:
        groups: dict[str, list[Obj]] = {}
        for pod in self._owned(lws):
            groups.setdefault(pod["metadata"]["labels"][LWS + "group-index"], []).append(pod)
        size = number(lws["spec"]["leaderWorkerTemplate"].get("size")) or 1
        ready = sum(len(p) == size and all(map(_is_ready, p)) for p in groups.values())
        wanted = number(lws["spec"].get("replicas"))
        done = ready == (1 if wanted is None else wanted)
        self._write_status(
            LWS_API,
            "leaderworkersets",
            lws,
            {
                "replicas": len(groups), "readyReplicas": ready, "updatedReplicas": len(groups),
                "observedGeneration": lws["metadata"].get("generation", 1),
                "conditions": [_condition("Available", done, "AllGroupsReady"),
                               _condition("Progressing", not done, "GroupsProgressing")],
            },
        )  # fmt: skip

    def _ds_status(self, ds: Obj) -> None:
        roles: dict[str, dict[str, Any]] = {}
        for lws in self._list(LWS_API, "leaderworkersets"):
            labels = lws["metadata"].get("labels") or {}
            if labels.get(DS + "name") != ds["metadata"]["name"]:
                continue
            held = roles.setdefault(
                labels[DS + "role"], {"replicas": 0, "readyReplicas": 0, "updatedReplicas": 0}
            )
            for key in held:
                held[key] += lws.get("status", {}).get(key, 0)
        done = all(r["replicas"] == r["readyReplicas"] for r in roles.values()) and bool(roles)
        self._write_status(
            DS_API,
            "disaggregatedsets",
            ds,
            {
                "observedGeneration": ds["metadata"].get("generation", 1),
                "roleStatuses": [{"name": n, **r} for n, r in sorted(roles.items())],
                "conditions": [_condition("Available", done, "AllRolesReady"),
                               _condition("Progressing", not done, "RolloutInProgress")],
            },
        )  # fmt: skip

    def _deployment_status(self, deployment: Obj) -> None:
        pods = self._owned(deployment)
        ready = sum(map(_is_ready, pods))
        status = {
            "replicas": len(pods), "readyReplicas": ready, "updatedReplicas": len(pods), "availableReplicas": ready,
            "observedGeneration": deployment["metadata"].get("generation", 1),
        }  # fmt: skip
        self._write_status("apps/v1", "deployments", deployment, status)

    def _pool_status(self, pool: Obj) -> None:
        parent = {"parentRef": {"kind": "Gateway", "name": "demo"}, "conditions": [
            _condition("Accepted", holds=True, reason="Accepted"),
            _condition("ResolvedRefs", holds=True, reason="ResolvedRefs"),
        ]}  # fmt: skip
        self._write_status("inference.networking.k8s.io/v1", "inferencepools", pool, {"parents": [parent]})


def _condition(kind: str, holds: bool, reason: str) -> dict[str, str]:
    return {
        "type": kind, "status": "True" if holds else "False", "reason": reason if holds else "NotYet", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _owner(api: str, kind: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def _is_ready(pod: Obj) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", ())
    )


def _gpus(pod: Obj) -> int:
    return sum(
        number((c.get("resources") or {}).get("limits", {}).get("nvidia.com/gpu")) or 0
        for c in pod["spec"]["containers"]
    )


def _group_pods(lws: Obj) -> Iterator[dict[str, Any]]:
    meta, spec = lws["metadata"], lws["spec"]
    template = spec["leaderWorkerTemplate"]
    size, replicas = number(template.get("size")) or 1, number(spec.get("replicas"))
    inherited = {k: v for k, v in (meta.get("labels") or {}).items() if k.startswith(DS)}
    for group in range(1 if replicas is None else replicas):
        for worker in range(size):
            source = template.get("leaderTemplate") if worker == 0 else None
            source = source or template["workerTemplate"]
            own = source.get("metadata") or {}
            name = f"{meta['name']}-{group}" + (f"-{worker}" if worker else "")
            labels = {
                **(own.get("labels") or {}), **inherited, LWS + "name": meta["name"],
                LWS + "group-index": str(group), LWS + "worker-index": str(worker),
            }  # fmt: skip
            annotations = {**(own.get("annotations") or {}), LWS + "size": str(size)}
            yield {
                "metadata": {"name": name, "labels": labels, "annotations": annotations},
                "spec": source["spec"],
                "ownerName": meta["name"],
            }


def _deployment_pods(deployment: Obj) -> Iterator[dict[str, Any]]:
    meta, spec = deployment["metadata"], deployment["spec"]
    template, replicas = spec["template"], number(spec.get("replicas"))
    own, revision = template.get("metadata") or {}, _hash(template)
    for i in range(1 if replicas is None else replicas):
        yield {
            "metadata": {
                "name": f"{meta['name']}-{revision}-{i}",
                "labels": dict(own.get("labels") or {}),
                "annotations": dict(own.get("annotations") or {}),
            },
            "spec": template["spec"],
            "ownerName": f"{meta['name']}-{revision}",
        }
