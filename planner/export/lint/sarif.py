"""Findings as SARIF 2.1.0, for code-scanning interfaces."""

from __future__ import annotations

from collections.abc import Sequence

from planner.export.lint.core import Finding, RuleInfo, Severity

_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(findings: Sequence[Finding], rules: Sequence[RuleInfo], *, version: str) -> dict[str, object]:
    """One SARIF log with one run."""
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "wideplan lint",
                        "version": version,
                        "rules": [
                            {
                                "id": r.id,
                                "shortDescription": {"text": r.title},
                                "fullDescription": {"text": r.why},
                                "help": {"text": f"{r.fix} ({r.source})"},
                                "defaultConfiguration": {"level": _LEVEL[r.severity]},
                            }
                            for r in rules
                        ],
                    }
                },
                "results": [_result(f) for f in findings],
            }
        ],
    }


def _result(finding: Finding) -> dict[str, object]:
    return {
        "ruleId": finding.rule.id,
        "level": _LEVEL[finding.severity],
        "message": {"text": f"{finding.what}. {finding.rule.why}. Fix: {finding.fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": finding.source},
                    "region": {"startLine": finding.line},
                },
                "logicalLocations": [{"fullyQualifiedName": f"{finding.object} {finding.path}"}],
            }
        ],
    }
