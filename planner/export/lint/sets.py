"""Rules about sets: rollouts, names, revisions, CRD versions, and the webhooks' own rules (L16, L17, L28, L30, L31, W01-W08)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.export.bundle import name_of
from planner.export.lint.core import ERROR, WARNING, Hit, Scene, rule
from planner.export.lint.engine import pod_path
from planner.export.naming import DS_BUDGET, LWS_LIMIT
from planner.export.values import Json, Table, dig, number, rows, table
from planner.export.yaml import Document

_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"


def _lws_specs(scene: Scene) -> Iterator[tuple[Document, str, str, Table]]:
    """(document, label, path, LeaderWorkerSet spec) of every set and role."""
    for document in scene.bundle.of("LeaderWorkerSet"):
        yield document, f"LeaderWorkerSet/{name_of(document)}", "$.spec", table(document.value.get("spec"))
    for document in scene.bundle.of("DisaggregatedSet"):
        for i, raw in enumerate(rows(dig(document.value, "spec", "roles"))):
            role = table(raw)
            label = f"DisaggregatedSet/{name_of(document)} role {role.get('name')}"
            yield document, label, f"$.spec.roles[{i}].spec", table(role.get("spec"))


def _amount(value: Json) -> int | None:
    """An integer or a percentage as a number; None when it is neither."""
    if isinstance(value, str) and re.fullmatch(r"\d+%", value):
        return int(value[:-1])
    return number(value)


@rule(
    "L16",
    ERROR,
    "a rollout that waits for GPUs nobody has",
    why="surge needs a spare copy of a group; on a full cluster the new pods stay Pending and the old ones stay up",
    fix="rolloutStrategy.rollingUpdateConfiguration: maxSurge 0, maxUnavailable 1",
    source="lws#567, kueue#8769; llm-d guide base manifests",
)
def rollout_surge(scene: Scene) -> Iterator[Hit]:
    """An unset strategy in a DisaggregatedSet role surges; so does a Deployment's default."""
    for document, label, path, spec in _lws_specs(scene):
        config = dig(spec, "rolloutStrategy", "rollingUpdateConfiguration")
        if config is None and label.startswith("DisaggregatedSet"):
            yield Hit(
                document, f"{path}.rolloutStrategy", f"{label}: unset, which means surge 1 / unavailable 0"
            )
        elif (_amount(table(config).get("maxSurge")) or 0) > 0:
            yield Hit(
                document,
                f"{path}.rolloutStrategy",
                f"{label}: maxSurge {table(config)['maxSurge']}",
                None,
                WARNING,
            )
    for e in scene.bundle.engines:
        if e.kind != "Deployment" or e.gpus is None:
            continue
        strategy = table(e.spec.get("strategy"))
        surge = dig(strategy, "rollingUpdate", "maxSurge")
        if strategy.get("type") != "Recreate" and (surge is None or (_amount(surge) or 0) > 0):
            shown = "default strategy (surge 25 %)" if surge is None else f"maxSurge {surge}"
            yield Hit(
                e.document, "$.spec.strategy", f"{e.label}: {shown}", "maxSurge 0 or type Recreate", WARNING
            )


@rule(
    "L17",
    ERROR,
    "a name too long for what is made from it",
    why="controllers build pod labels and Service names from it; beyond 63 characters they are rejected",
    fix="shorten metadata.name",
    source="LWS troubleshooting; kubernetes#64023; disaggregatedset webhook",
)
def name_lengths(scene: Scene) -> Iterator[Hit]:
    """The 51- and 47-character rules, shorter under Hash identity."""
    for document in scene.bundle.of("LeaderWorkerSet"):
        spec = table(document.value.get("spec"))
        replicas = number(spec.get("replicas")) or 1
        limit = LWS_LIMIT - replicas // 10
        if spec.get("groupIdentity") == "Hash":
            limit = 54 if (number(dig(spec, "leaderWorkerTemplate", "size")) or 1) == 1 else 43
        if len(name_of(document)) > limit:
            yield Hit(document, "$.metadata.name", f"{len(name_of(document))} characters, {limit} fit")
    for document in scene.bundle.of("DisaggregatedSet"):
        spec = table(document.value.get("spec"))
        slices = number(spec.get("slices")) or 1
        for i, raw in enumerate(rows(spec.get("roles"))):
            role = table(raw)
            hashed = dig(role, "spec", "groupIdentity") == "Hash"
            grouped = (number(dig(role, "spec", "leaderWorkerTemplate", "size")) or 1) > 1
            budget = 31 if hashed and grouped else DS_BUDGET - (slices > 10)
            length = len(name_of(document)) + len(str(role.get("name")))
            if length > budget:
                yield Hit(
                    document,
                    f"$.spec.roles[{i}].name",
                    f"set and role '{role.get('name')}' have {length} characters, {budget} fit",
                )
    for kind in ("LeaderWorkerSet", "DisaggregatedSet"):
        for document in scene.bundle.of(kind):
            if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name_of(document)):
                yield Hit(
                    document,
                    "$.metadata.name",
                    f"'{name_of(document)}' is not a DNS label",
                    "lower-case letters, digits and '-', starting with a letter",
                )


@rule(
    "L28",
    WARNING,
    "prefill and decode roll out separately",
    why="during an update the router pairs old prefill with new decode, which refuse each other",
    fix="one DisaggregatedSet for both roles, or a new pool per version",
    source="llm-d disaggregation docs; router screener README",
)
def one_revision(scene: Scene) -> Iterator[Hit]:
    """Both roles in one DisaggregatedSet."""
    owners = {(id(e.document), e.name) for e in (*scene.bundle.prefill, *scene.bundle.decode)}
    amd = any(e.resource("amd.com/gpu") for e in scene.bundle.engines)
    if scene.bundle.disaggregated and len(owners) > 1 and not amd:
        for e in scene.bundle.decode:
            yield Hit(e.document, "$.spec", f"{e.label} and its prefill side are separate objects")


_SINCE = (
    ("groupIdentity", (0, 11)),
    ("groupReplacementPolicy", (0, 11)),
    ("scheduling", (0, 11)),
)


@rule(
    "L30",
    WARNING,
    "fields newer than many installed CRDs",
    why="an older CRD drops the field silently, or a strict client refuses the object",
    fix="check the LeaderWorkerSet version of the cluster",
    source="LWS KEP-898, KEP-820; #873, #916",
)
def field_versions(scene: Scene) -> Iterator[Hit]:
    """Fields against the LWS version; an error when the version is known to be older."""

    def hit(document: Document, path: str, name: str, since: tuple[int, ...]) -> Hit | None:
        have = scene.lws_version
        if have is not None and have >= since:
            return None
        text = ".".join(map(str, since))
        what = f"{name} needs LWS {text}" + (f", have {'.'.join(map(str, have))}" if have else "")
        return Hit(document, path, what, None, ERROR if have else WARNING)

    for document, _, path, spec in _lws_specs(scene):
        found = [hit(document, f"{path}.{n}", n, v) for n, v in _SINCE if n in spec]
        group = table(spec.get("leaderWorkerTemplate"))
        if "maxGroupRestarts" in group:
            found.append(hit(document, f"{path}.leaderWorkerTemplate", "maxGroupRestarts", (0, 11)))
        yield from (h for h in found if h is not None)
    for document in scene.bundle.of("DisaggregatedSet"):
        spec = table(document.value.get("spec"))
        for name in ("slices", "placementPolicy"):
            made = hit(document, f"$.spec.{name}", name, (0, 10)) if name in spec else None
            if made is not None:
                yield made


@rule(
    "L31",
    WARNING,
    "a group that does not restart as one",
    why="a rank cannot rejoin a running DP group; without group restart the survivors hang",
    fix="restartPolicy RecreateGroupOnPodRestart",
    source="lws#291, #804",
)
def group_restart(scene: Scene) -> Iterator[Hit]:
    """Restart and startup policies of groups of several pods."""
    for e in scene.bundle.engines:
        if e.size < 2 or not e.in_lws:
            continue
        policy = dig(e.spec, "leaderWorkerTemplate", "restartPolicy")
        if policy in ("None", "Default", "RecreateGroupAfterStart"):
            yield Hit(e.document, pod_path(e), f"{e.label}: restartPolicy {policy}")
        if e.spec.get("startupPolicy") == "LeaderReady":
            yield Hit(
                e.document,
                pod_path(e),
                f"{e.label}: startupPolicy LeaderReady",
                "LeaderCreated: the leader becomes ready only after all ranks joined",
                ERROR,
            )


@rule(
    "W01",
    ERROR,
    "counts the LeaderWorkerSet webhook rejects",
    why="replicas 0 to 1,000,000, size at least 1, pods below 2^31",
    fix="mend the named field",
    source="lws pkg/webhooks/leaderworkerset_webhook.go",
)
def lws_counts(scene: Scene) -> Iterator[Hit]:
    """Replicas and size."""
    for document, label, path, spec in _lws_specs(scene):
        replicas = number(spec.get("replicas"))
        size = number(dig(spec, "leaderWorkerTemplate", "size"))
        if replicas is not None and not 0 <= replicas <= 1_000_000:
            yield Hit(document, f"{path}.replicas", f"{label}: replicas {replicas}")
        if size is not None and size < 1:
            yield Hit(document, f"{path}.leaderWorkerTemplate.size", f"{label}: size {size}")
        if (replicas or 1) * (size or 1) > 2**31 - 1:
            yield Hit(document, path, f"{label}: {replicas} x {size} pods")


@rule(
    "W02",
    ERROR,
    "rollout numbers the webhook rejects",
    why="maxSurge and maxUnavailable are integers or percentages up to 100 %, not both zero; a DisaggregatedSet takes no partition",
    fix="maxSurge 0, maxUnavailable 1",
    source="lws webhooks for LeaderWorkerSet and DisaggregatedSet",
)
def rollout_numbers(scene: Scene) -> Iterator[Hit]:
    """Values of the rolling update."""
    for document, label, path, spec in _lws_specs(scene):
        strategy = table(spec.get("rolloutStrategy"))
        config = table(strategy.get("rollingUpdateConfiguration"))
        where = f"{path}.rolloutStrategy"
        if strategy.get("type") not in (None, "RollingUpdate"):
            yield Hit(document, where, f"{label}: type {strategy.get('type')}")
        for name in ("maxSurge", "maxUnavailable"):
            value = config.get(name)
            amount = _amount(value)
            if value is not None and (amount is None or amount < 0):
                yield Hit(
                    document, f"{where}.rollingUpdateConfiguration.{name}", f"{label}: {name} {value!r}"
                )
            elif isinstance(value, str) and value.endswith("%") and amount is not None and amount > 100:
                yield Hit(document, f"{where}.rollingUpdateConfiguration.{name}", f"{label}: {name} {value}")
        zero = (
            config
            and _amount(config.get("maxSurge", 0)) == 0
            and _amount(config.get("maxUnavailable", 1)) == 0
        )
        if zero and number(spec.get("replicas")) != 0:
            yield Hit(document, where, f"{label}: surge and unavailable are both zero")
        if label.startswith("DisaggregatedSet") and (number(config.get("partition")) or 0) != 0:
            yield Hit(document, where, f"{label}: partition inside a DisaggregatedSet")


@rule(
    "W03",
    ERROR,
    "sub-group sizes the webhook rejects",
    why="the group, or the group without its leader, must divide into sub-groups",
    fix="choose a divisor of size or of size - 1",
    source="lws pkg/webhooks/leaderworkerset_webhook.go",
)
def sub_groups(scene: Scene) -> Iterator[Hit]:
    """Sub-group arithmetic and its annotation."""
    for document, label, path, spec in _lws_specs(scene):
        group = table(spec.get("leaderWorkerTemplate"))
        policy = group.get("subGroupPolicy")
        notes = table(dig(document.value, "metadata", "annotations"))
        if policy is None:
            if _SUBGROUP_EXCLUSIVE in notes:
                yield Hit(
                    document,
                    "$.metadata.annotations",
                    f"{label}: {_SUBGROUP_EXCLUSIVE} without subGroupPolicy",
                )
            continue
        size, sub = number(group.get("size")) or 1, number(table(policy).get("subGroupSize"))
        where = f"{path}.leaderWorkerTemplate.subGroupPolicy"
        excluded = table(policy).get("subGroupPolicyType") == "LeaderExcluded"
        if sub is None or not 1 <= sub <= size:
            yield Hit(document, where, f"{label}: subGroupSize {sub} of {size} pods")
        elif (size - 1) % sub and (excluded or size % sub):
            yield Hit(document, where, f"{label}: subGroupSize {sub} does not divide {size} pods")


@rule(
    "W04",
    ERROR,
    "roles a DisaggregatedSet rejects",
    why="2 to 10 roles with distinct DNS names; replicas of all static roles are zero or none is",
    fix="mend the named field",
    source="DisaggregatedSet CRD (CEL) and webhook",
)
def roles(scene: Scene) -> Iterator[Hit]:
    """Number, names and replicas of the roles."""
    for document in scene.bundle.of("DisaggregatedSet"):
        listed = [table(r) for r in rows(dig(document.value, "spec", "roles"))]
        if not 2 <= len(listed) <= 10:
            yield Hit(document, "$.spec.roles", f"{len(listed)} roles")
        names = [str(r.get("name")) for r in listed]
        for i, name in enumerate(names):
            if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) or len(name) > 63:
                yield Hit(document, f"$.spec.roles[{i}].name", f"role name '{name}'")
            if name in names[:i]:
                yield Hit(document, f"$.spec.roles[{i}].name", f"role '{name}' twice")
        static = [r for r in listed if dig(r, "scaling", "mode") != "External"]
        counts = [number(dig(r, "spec", "replicas")) for r in static]
        zero = [(1 if c is None else c) == 0 for c in counts]
        if any(zero) and not all(zero):
            yield Hit(document, "$.spec.roles", "some roles have zero replicas and others do not")


@rule(
    "W05",
    ERROR,
    "scaling a DisaggregatedSet rejects",
    why="slices are 1 to 100, and exactly 1 while a role is scaled externally",
    fix="mend the named field",
    source="disaggregatedset webhook",
)
def scaling(scene: Scene) -> Iterator[Hit]:
    """Slices and external scaling."""
    for document in scene.bundle.of("DisaggregatedSet"):
        spec = table(document.value.get("spec"))
        slices = spec.get("slices")
        if slices is not None and not 1 <= (number(slices) or 0) <= 100:
            yield Hit(document, "$.spec.slices", f"slices {slices!r}")
        for i, raw in enumerate(rows(spec.get("roles"))):
            role = table(raw)
            if dig(role, "scaling", "mode") != "External":
                continue
            where = f"$.spec.roles[{i}].scaling"
            if (number(slices) or 1) > 1:
                yield Hit(
                    document, where, f"role '{role.get('name')}' is scaled externally with {slices} slices"
                )
            if (number(dig(role, "spec", "replicas")) or 1) > 1:
                yield Hit(
                    document, where, f"replicas of role '{role.get('name')}' are ignored", None, WARNING
                )
            if len(f"{name_of(document)}-{role.get('name')}") > 253:
                yield Hit(document, where, "the scaler's name exceeds 253 characters")


@rule(
    "W06",
    ERROR,
    "placement a DisaggregatedSet rejects",
    why="a placement policy needs a topology key and excludes the LeaderWorkerSet exclusive-topology annotations",
    fix="set placementPolicy.topology, or drop one of the two",
    source="disaggregatedset webhook",
)
def placement(scene: Scene) -> Iterator[Hit]:
    """Placement policy against topology and annotations."""
    for document in scene.bundle.of("DisaggregatedSet"):
        policy = table(dig(document.value, "spec", "placementPolicy"))
        if policy.get("type", "None") == "None":
            continue
        if not policy.get("topology"):
            yield Hit(
                document, "$.spec.placementPolicy.topology", f"type {policy.get('type')} without topology"
            )
        for i, raw in enumerate(rows(dig(document.value, "spec", "roles"))):
            if _EXCLUSIVE in repr(raw):
                yield Hit(document, f"$.spec.roles[{i}]", f"{_EXCLUSIVE} beside a placement policy")


@rule(
    "W07",
    ERROR,
    "Hash identity with fields it excludes",
    why="the webhook rejects partitions and volume claim templates under groupIdentity Hash",
    fix="use Ordinal, or drop the field",
    source="LWS KEP-898",
)
def hash_identity(scene: Scene) -> Iterator[Hit]:
    """Fields that exclude Hash."""
    for document, label, path, spec in _lws_specs(scene):
        hashed = spec.get("groupIdentity") == "Hash"
        if hashed and (number(dig(spec, "rolloutStrategy", "rollingUpdateConfiguration", "partition")) or 0):
            yield Hit(document, f"{path}.rolloutStrategy", f"{label}: partition with Hash identity")
        if hashed and dig(spec, "leaderWorkerTemplate", "volumeClaimTemplates"):
            yield Hit(
                document, f"{path}.leaderWorkerTemplate", f"{label}: volumeClaimTemplates with Hash identity"
            )
        if spec.get("groupReplacementPolicy") == "Immediate" and not hashed:
            yield Hit(document, path, f"{label}: groupReplacementPolicy Immediate without Hash identity")


@rule(
    "W08",
    ERROR,
    "container ports that Kubernetes rejects",
    why="port names are unique per pod and at most 15 characters; two containers of a pod cannot open one port",
    fix="rename or renumber the port",
    source="Kubernetes API validation",
)
def container_ports(scene: Scene) -> Iterator[Hit]:
    """Names and numbers of container ports."""
    for e in scene.bundle.engines:
        names: set[str] = set()
        taken: dict[int, str] = {}
        for key in ("initContainers", "containers"):
            for raw in rows(e.pod.get(key)):
                container = table(raw)
                if key == "initContainers" and container.get("restartPolicy") != "Always":
                    continue
                for port in rows(container.get("ports")):
                    name, value = str(table(port).get("name", "")), number(table(port).get("containerPort"))
                    where = f"{pod_path(e)}.{key}"
                    if len(name) > 15 or (name and not re.search(r"[a-z]", name)):
                        yield Hit(e.document, where, f"{e.label}: port name '{name}'")
                    if name and name in names:
                        yield Hit(e.document, where, f"{e.label}: port name '{name}' twice", None, WARNING)
                    names.add(name)
                    if value is not None and not 1 <= value <= 65535:
                        yield Hit(e.document, where, f"{e.label}: port {value}")
                    if value in taken and taken[value] != container.get("name"):
                        yield Hit(
                            e.document,
                            where,
                            f"{e.label}: port {value} of {taken[value]} and {container.get('name')}",
                        )
                    if value is not None:
                        taken[value] = str(container.get("name"))
