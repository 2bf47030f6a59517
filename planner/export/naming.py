"""Names and labels: what Kubernetes and the controllers allow, and how ours are made."""

from __future__ import annotations

import re

from planner.domain.errors import InputError, Issue

# <ds>-<slice>-<8 hex revision>-<role>-prv must fit 63 characters: len(ds) + len(role) <= 47 (46 beyond ten slices).
DS_BUDGET = 47
LWS_LIMIT = 51  # less one character per extra digit of replicas; longer names make pod labels too long
DEPLOYMENT_LIMIT = 52  # leaves room for the pod template hash
PREFIX = "wideplan"
PLAN_ANNOTATION = f"{PREFIX}/plan"
VERSION_ANNOTATION = f"{PREFIX}/created-by"
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def slug(text: str) -> str:
    """`text` as a DNS-1035 label without a length limit (starts with a letter)."""
    out = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return out if out[:1].isalpha() else f"p-{out}".rstrip("-")


def label_value(text: str) -> str:
    """The last part of a model id as a label value: at most 63 characters of [A-Za-z0-9._-]."""
    out = re.sub(r"[^A-Za-z0-9._-]+", "-", text.rsplit("/", 1)[-1])[:63]
    return out.strip("-._") or "model"


def check_namespace(name: str) -> None:
    """Raise InputError ``export.namespace_invalid`` unless `name` can be a namespace (DNS-1123 label)."""
    if len(name) > 63 or not _DNS1123.fullmatch(name):
        raise InputError(
            Issue(
                code="export.namespace_invalid",
                what=f"namespace '{name}'",
                why="a namespace has at most 63 characters: lower-case letters, digits and '-'",
                fix="--namespace with the name of the namespace",
                where="--namespace",
            )
        )


def check_name(name: str, *, limit: int, rule: str) -> str:
    """`name` when it fits. Raises InputError ``export.name_too_long`` or ``export.name_invalid``."""
    if len(name) > limit:
        raise InputError(
            Issue(
                code="export.name_too_long",
                what=f"name '{name}' has {len(name)} characters, at most {limit} fit here",
                why=rule,
                fix="--name with a shorter name",
                where="--name",
            )
        )
    if not _DNS1035.fullmatch(name):
        raise InputError(
            Issue(
                code="export.name_invalid",
                what=f"name '{name}'",
                why="it becomes a Service name: lower-case letters, digits and '-', starting with a letter",
                fix=f"--name {slug(name)}",
                where="--name",
            )
        )
    return name
