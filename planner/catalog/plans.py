"""Save and load a deployment plan as ``wideplan.plan/v1``, JSON or YAML by the file's suffix.

The document is ``{"schema": "wideplan.plan/v1", "plan": {...}}``. Loading also takes any other wideplan document that
carries a ``plan`` (what ``planner recommend --json`` prints). The same plan always gives the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Final

import yaml

from planner.catalog.documents import Document, read_document
from planner.catalog.findings import Report
from planner.catalog.wire import structure, structure_data, unstructure
from planner.domain.deployment import DeploymentPlan, Role, Strategy
from planner.domain.errors import InputError, Issue

SCHEMA: Final = "wideplan.plan/v1"
_VERSION: Final = 1
_SCHEMA = re.compile(r"wideplan\.([a-z-]+)/v(\d+)")


def dump_plan(plan: DeploymentPlan, *, as_yaml: bool = False) -> str:
    """Return the document of `plan` as text, ending in a newline."""
    # Equal plans give equal bytes: a rate written as 2000 becomes 2000.0, as it would be after loading.
    plan = structure_data(unstructure(plan), DeploymentPlan, name="plan")
    document = {"schema": SCHEMA, "plan": unstructure(plan)}
    if as_yaml:
        return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100)
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def save_plan(plan: DeploymentPlan, path: Path) -> None:
    """Write `plan` to `path`, YAML for ``.yaml`` and ``.yml``, JSON otherwise.

    The file is replaced in one step, so a full disk never leaves half a plan. Raises InputError ``save.unwritable``.
    """
    text = dump_plan(plan, as_yaml=path.suffix in {".yaml", ".yml"})
    try:
        if path.exists() and not path.is_file():  # a pipe or /dev/stdout cannot be replaced
            path.write_text(text, encoding="utf-8")
            return
        target = path.resolve()
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as f:
                f.write(text)
                f.flush()
                os.fsync(f.fileno())
            Path(name).chmod(_mode_of(target))
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as e:
        raise InputError(_unwritable(path, e.strerror or str(e))) from None


def check_writable(path: Path, *, flag: str = "--save") -> None:
    """Raise InputError ``save.unwritable`` when `path` cannot be written; to be called before long work.

    Leaves no file behind.
    """
    if path.is_dir():
        raise InputError(_unwritable(path, "it is a folder", flag))
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(_unwritable(path, "the file is read-only", flag))
    if path.exists() and not path.is_file():
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.resolve().parent)
    except OSError as e:
        raise InputError(_unwritable(path, e.strerror or str(e), flag)) from None
    os.close(handle)
    Path(name).unlink()


def load_plan(path: Path) -> DeploymentPlan:
    """Read a plan.

    Raises InputError ``plan.schema_missing``, ``plan.schema_unknown``, ``plan.schema_newer``, ``plan.missing``,
    ``plan.invalid`` (a value no plan can have) or structural problems; MissingDataError ``file.not_found``.
    """
    document = read_document(path)
    _check_schema(document)
    if "plan" not in document.data:
        raise InputError(
            Issue(
                code="plan.missing",
                what=f"{path} holds no plan",
                why="a document of this kind carries one only when a plan was found",
                fix="save one with: planner recommend ... --save FILE",
                where=document.where(()),
            )
        )
    plan = structure(document, DeploymentPlan, at=("plan",))
    issues = _invalid(plan, document)
    if issues:
        raise InputError(*issues)
    return plan


def _check_schema(document: Document) -> None:
    schema = document.data.get("schema") if isinstance(document.data, dict) else None
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    if schema is None:
        raise InputError(
            Issue(
                code="plan.schema_missing",
                what=f"{document.name} has no 'schema'",
                why=f"a saved plan starts with schema: {SCHEMA}",
                fix="name a file written by planner recommend --save",
                where=document.where(("schema",)),
            )
        )
    if match is None:
        raise InputError(
            Issue(
                code="plan.schema_unknown",
                what=f"schema '{schema}'",
                why=f"this is no wideplan document; a plan has schema {SCHEMA}",
                fix="name a file written by planner recommend --save",
                where=document.where(("schema",)),
            )
        )
    if int(match.group(2)) > _VERSION:
        raise InputError(
            Issue(
                code="plan.schema_newer",
                what=f"schema '{schema}' is newer than this version of wideplan reads (v{_VERSION})",
                why="its fields may mean something else",
                fix="upgrade wideplan, or save the plan again with this version",
                where=document.where(("schema",)),
            )
        )


def _invalid(plan: DeploymentPlan, document: Document) -> tuple[Issue, ...]:
    r = Report("plan", document)

    def bad(path: tuple[str | int, ...], what: str, why: str) -> None:
        r.add("invalid", ("plan", *path), what=what, why=why, fix="correct the file or save the plan again")

    wanted = {Role.AGGREGATED} if plan.strategy is Strategy.AGGREGATED else {Role.PREFILL, Role.DECODE}
    if {role.role for role in plan.roles} != wanted:
        bad(
            ("roles",),
            f"roles {', '.join(role.role.value for role in plan.roles) or 'none'}",
            f"a plan with strategy {plan.strategy.value} has {' and '.join(sorted(w.value for w in wanted))}",
        )
    for i, role in enumerate(plan.roles):
        counts = {
            "groups": role.groups, "max_num_seqs": role.max_num_seqs, "block_size": role.block_size,
            "max_num_batched_tokens": role.max_num_batched_tokens,
        }  # fmt: skip
        for name, count in counts.items():
            if count < 1:
                bad(("roles", i, name), f"{name} is {count}", "it must be 1 or more")
        for name in ("tp", "dp", "dcp"):
            if getattr(role.parallelism, name) < 1:
                bad(
                    ("roles", i, "parallelism", name),
                    f"{name} is {getattr(role.parallelism, name)}",
                    "a width is 1 or more",
                )
        if not 0 < role.gpu_memory_utilization <= 1:
            bad(
                ("roles", i, "gpu_memory_utilization"),
                f"gpu_memory_utilization is {role.gpu_memory_utilization:g}",
                "it is a fraction of device memory: more than 0, at most 1",
            )
    if not r.issues and plan.gpus_used > plan.gpus_owned:
        bad(
            ("gpus_owned",),
            f"the roles use {plan.gpus_used} GPUs of {plan.gpus_owned} owned",
            "a plan never uses more than it owns",
        )
    if plan.workload.isl < 1 or plan.workload.osl < 1:
        bad(("workload",), f"isl {plan.workload.isl}, osl {plan.workload.osl}", "both are 1 or more")
    return tuple(r.issues)


def _mode_of(target: Path) -> int:
    """Permission bits of an existing file, or those a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _unwritable(path: Path, why: str, flag: str = "--save") -> Issue:
    return Issue(
        code="save.unwritable",
        what=f"cannot write {path}",
        why=why,
        fix="name a file in a folder that exists and is writable",
        where=flag,
    )
