"""`planner lint`: manifests against the known causes of failed deployments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.output import emit_json
from planner.domain.errors import ExitCode, InputError, Issue

if TYPE_CHECKING:
    from planner.export.compare import Difference
    from planner.export.lint import Finding
    from planner.export.yaml import Document


def lint(
    files: Annotated[
        list[str] | None, typer.Argument(help="Manifests, Helm values or folders; '-' reads standard input.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="A saved plan to compare the deployment with.")
    ] = None,
    crds: Annotated[
        Path | None, typer.Option("--crds", help="Folder of CustomResourceDefinitions to validate against.")
    ] = None,
    lws_version: Annotated[
        str | None, typer.Option("--lws-version", help="LeaderWorkerSet version of the cluster, e.g. 0.10.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only this rule; repeatable.")] = None,
    list_rules: Annotated[bool, typer.Option("--list-rules", help="Print the rules and stop.")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 when there are errors.")] = False,
    sarif: Annotated[bool, typer.Option("--sarif", help="SARIF 2.1.0 on stdout.")] = False,
    profiles: Annotated[
        Path | None, typer.Option("--profiles", help="Folder of your own profiles, laid over ours.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Check manifests against the known causes of failed deployments.

    Works on hand-written manifests as well as on ours: planner export PLAN | planner lint - --exit-code
    """
    from planner.export.dialects import parse_version
    from planner.export.files import read_manifests
    from planner.export.lint import Severity, lint_documents, rules
    from planner.export.schema import load_schemas
    from planner.search.manifest_facts import CatalogueFacts

    if list_rules:
        _print_rules(json=json)
        return
    if not files:
        raise InputError(
            Issue(
                code="lint.nothing_given",
                what="no files",
                why="the linter reads manifests from files, folders or standard input",
                fix="planner lint FILE, or: planner export PLAN | planner lint -",
            )
        )
    _check_rule_names(only or [], [r.id for r in rules()])
    documents = read_manifests(files, sys.stdin)
    facts = CatalogueFacts(profiles=profiles)
    findings = lint_documents(
        documents,
        facts=facts,
        schemas=load_schemas(crds) if crds else None,
        lws_version=parse_version(lws_version) if lws_version else None,
        only=only or (),
    )
    changed = _compare(documents, against, facts) if against else None
    if sarif:
        _print_sarif(findings)
    elif json:
        emit_json("lint", _payload(findings, changed, len(documents)))
    else:
        _print_text(findings, changed, len(documents))
    if exit_code and (changed or any(f.severity is Severity.ERROR for f in findings)):
        raise typer.Exit(int(ExitCode.ANSWERED_NO))


def _check_rule_names(only: list[str], known: list[str]) -> None:
    from planner.domain.errors import did_you_mean

    unknown = [n for n in only if n not in known]
    if unknown:
        raise InputError(
            *(
                Issue(
                    code="lint.rule_unknown",
                    what=f"rule '{n}'",
                    why="rules are named by id",
                    fix=f"{did_you_mean(n, known)} See planner lint --list-rules",
                    where="--only",
                )
                for n in unknown
            )
        )


def _compare(documents: tuple[Document, ...], against: Path, facts: object) -> tuple[Difference, ...]:
    from planner.catalog.plans import load_plan
    from planner.export.compare import differences
    from planner.export.parse import ImportHints, import_plan
    from planner.search.manifest_facts import CatalogueFacts

    planned = load_plan(against)
    serving = planned.roles[-1]
    acceptance = next((r.speculation.acceptance for r in planned.roles if r.speculation), None)
    hints = ImportHints(
        name=planned.name,
        gpu=serving.gpu,
        node=serving.node,
        fabric=planned.fabric,
        workload=planned.workload,
        slo=planned.slo,
        concurrency=planned.concurrency,
        acceptance=acceptance,
    )
    known = facts if isinstance(facts, CatalogueFacts) else CatalogueFacts()
    return differences(planned, import_plan(documents, facts=known, hints=hints).plan)


def _payload(
    findings: tuple[Finding, ...], changed: tuple[Difference, ...] | None, documents: int
) -> dict[str, object]:
    out: dict[str, object] = {
        "documents": documents,
        "findings": [
            {
                "rule": f.rule.id,
                "severity": f.severity.value,
                "title": f.rule.title,
                "file": f.source,
                "line": f.line,
                "object": f.object,
                "path": f.path,
                "what": f.what,
                "why": f.rule.why,
                "fix": f.fix,
                "source": f.rule.source,
            }
            for f in findings
        ],
    }
    if changed is not None:
        out["differences"] = [{"where": d.where, "planned": d.planned, "running": d.running} for d in changed]
    return out


def _print_text(
    findings: tuple[Finding, ...], changed: tuple[Difference, ...] | None, documents: int
) -> None:
    out = sys.stdout
    for f in findings:
        what = f.what if f.what.startswith(f.object) else f"{f.object}: {f.what}"
        out.write(f"{f.source}:{f.line}: {f.severity.value} {f.rule.id} {what}\n")
        out.write(f"    at {f.path}\n    why: {f.rule.why}\n    fix: {f.fix} ({f.rule.source})\n")
    for d in changed or ():
        out.write(f"differs from the plan: {d.where}: planned {d.planned}, running {d.running}\n")
    counts = {s: sum(f.severity.value == s for f in findings) for s in ("error", "warning", "info")}
    summary = ", ".join(f"{n} {s}{'s' if n != 1 and s != 'info' else ''}" for s, n in counts.items())
    out.write(f"{documents} documents: {summary}")
    out.write(f", {len(changed)} differences from the plan\n" if changed is not None else "\n")


def _print_sarif(findings: tuple[Finding, ...]) -> None:
    import json as json_module

    from planner import __version__
    from planner.export.lint import rules
    from planner.export.lint.sarif import sarif

    json_module.dump(sarif(findings, rules(), version=__version__), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def _print_rules(*, json: bool) -> None:
    from planner.export.lint import rules

    if json:
        payload = [
            {
                "id": r.id,
                "severity": r.severity.value,
                "title": r.title,
                "why": r.why,
                "fix": r.fix,
                "source": r.source,
            }
            for r in rules()
        ]
        emit_json("lint-rules", {"rules": payload})
        return
    for r in rules():
        sys.stdout.write(f"{r.id} {r.severity.value:<7} {r.title}\n")
