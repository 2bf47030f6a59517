"""The linter: known causes of failed deployments, as rules."""

from planner.export.lint.core import Facts, Finding, RuleInfo, Severity
from planner.export.lint.run import lint_documents, rules

__all__ = ["Facts", "Finding", "RuleInfo", "Severity", "lint_documents", "rules"]
