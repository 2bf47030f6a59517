"""vLLM's command line as typed values: one table of flags with the versions that know them.

Checked against the argument parsers of vLLM 0.26.0 and 0.33.0. `since` and `until` are the first version that has the
flag and the first that no longer has it; ``(0,)`` stands for "older than any supported dialect".
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from planner.domain.errors import Issue
from planner.export.dialects import Version
from planner.export.shell import ShellSyntaxError, split_command, variables


class FlagKind(StrEnum):
    """How a flag takes its value."""

    SWITCH = "switch"
    VALUE = "value"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Flag:
    """One vLLM flag: spelling, kind, versions, and other spellings that mean the same."""

    name: str
    kind: FlagKind = FlagKind.VALUE
    since: Version = (0,)
    until: Version | None = None
    aliases: tuple[str, ...] = ()
    renamed_to: str | None = None

    def known_in(self, version: Version) -> bool:
        """Whether vLLM `version` accepts the flag."""
        return version >= self.since and (self.until is None or version < self.until)


_SWITCH = FlagKind.SWITCH
_JSON = FlagKind.JSON
FLAGS: dict[str, Flag] = {
    f.name: f
    for f in (
        Flag("port"),
        Flag("served-model-name"),
        Flag("trust-remote-code", _SWITCH),
        Flag("tensor-parallel-size", aliases=("tp",)),
        Flag("pipeline-parallel-size", aliases=("pp",)),
        Flag("decode-context-parallel-size", aliases=("dcp",)),
        Flag("prefill-context-parallel-size", aliases=("pcp",), since=(0, 14)),
        Flag("data-parallel-size", aliases=("dp",)),
        Flag("data-parallel-size-local", aliases=("dpl",)),
        Flag("data-parallel-start-rank", aliases=("dpr",)),
        Flag("data-parallel-rank", aliases=("dpn",)),
        Flag("data-parallel-address", aliases=("dpa",)),
        Flag("data-parallel-rpc-port", aliases=("dpp",)),
        Flag("data-parallel-backend", aliases=("dpb",)),
        Flag("data-parallel-hybrid-lb", _SWITCH, aliases=("dph",)),
        Flag("data-parallel-external-lb", _SWITCH, aliases=("dpe",)),
        Flag("data-parallel-multi-port-external-lb", _SWITCH, aliases=("dpm",), since=(0, 21)),
        Flag("data-parallel-supervisor-port", since=(0, 21)),
        Flag("api-server-count", aliases=("asc",)),
        Flag("headless", _SWITCH),
        Flag("nnodes", since=(0, 12)),
        Flag("node-rank", since=(0, 12)),
        Flag("master-addr", since=(0, 12)),
        Flag("master-port", since=(0, 12)),
        Flag("enable-expert-parallel", _SWITCH, aliases=("ep",)),
        Flag("enable-ep-weight-filter", _SWITCH, aliases=("ep-weight-filter",), since=(0, 18)),
        Flag("all2all-backend", since=(0, 12)),
        Flag("moe-backend", since=(0, 16)),
        Flag("enable-dbo", _SWITCH, since=(0, 11)),
        Flag("dbo-decode-token-threshold", since=(0, 11)),
        Flag("dbo-prefill-token-threshold", since=(0, 11)),
        Flag("enable-eplb", _SWITCH),
        Flag("eplb-config", _JSON, since=(0, 11)),
        Flag("num-redundant-experts", until=(0, 13), renamed_to="eplb-config"),
        Flag("eplb-window-size", until=(0, 13), renamed_to="eplb-config"),
        Flag("eplb-step-interval", until=(0, 13), renamed_to="eplb-config"),
        Flag("eplb-log-balancedness", _SWITCH, until=(0, 13), renamed_to="eplb-config"),
        Flag("speculative-config", _JSON, aliases=("sc",)),
        Flag("kv-transfer-config", _JSON),
        Flag("kv-events-config", _JSON),
        Flag("kv-cache-dtype"),
        Flag("block-size"),
        Flag("gpu-memory-utilization"),
        Flag("max-model-len"),
        Flag("max-num-seqs"),
        Flag("max-num-batched-tokens"),
        Flag("enable-cumem-allocator", _SWITCH, since=(0, 21)),
        Flag("disable-hybrid-kv-cache-manager", _SWITCH),
        Flag("no-disable-hybrid-kv-cache-manager", _SWITCH),
        Flag("disable-access-log-for-endpoints", since=(0, 15)),
        Flag("enforce-eager", _SWITCH),
        Flag("compilation-config", _JSON, aliases=("cc",)),
        Flag("load-format"),
        Flag("tokenizer-mode"),
    )
}
_BY_ALIAS = {alias: f.name for f in FLAGS.values() for alias in f.aliases}


@dataclass(frozen=True, slots=True)
class ShellExpression:
    """A value the shell works out at start, e.g. ``$START_RANK``; written unquoted."""

    text: str


ArgValue = str | int | float | ShellExpression | Mapping[str, object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCommand:
    """A ``vllm serve`` command: model and flags in the order they are written. None marks a switch."""

    model: str
    args: Mapping[str, ArgValue] = field(default_factory=dict)

    def check(self, version: Version) -> tuple[Issue, ...]:
        """One issue per flag that vLLM `version` does not have."""
        issues = []
        for name in self.args:
            flag = FLAGS.get(name)
            if flag is not None and not flag.known_in(version):
                text = ".".join(map(str, version))
                issues.append(
                    Issue(
                        code="export.flag_not_in_version",
                        what=f"--{name} is not known to vLLM {text}",
                        why=f"it exists {_span(flag)}",
                        fix=f"use --{flag.renamed_to}" if flag.renamed_to else "choose another --dialect",
                    )
                )
        return tuple(issues)

    def lines(self) -> tuple[str, ...]:
        """The command as shell words, one flag per line."""
        out = [f"vllm serve {shlex.quote(self.model)}"]
        for name, value in self.args.items():
            out.append(f"--{name}" if value is None else f"--{name} {_shell(value)}")
        return tuple(out)


def _span(flag: Flag) -> str:
    since = "" if flag.since == (0,) else f"from {'.'.join(map(str, flag.since))}"
    until = "" if flag.until is None else f"before {'.'.join(map(str, flag.until))}"
    return " and ".join(x for x in (since, until) if x)


def _shell(value: ArgValue) -> str:
    if isinstance(value, ShellExpression):
        return value.text
    if isinstance(value, Mapping):
        return shlex.quote(json.dumps(value, separators=(",", ":")))
    return shlex.quote(str(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCommand:
    """A ``vllm serve`` command read back. `unknown` are flags the table does not have, as written."""

    model: str
    args: Mapping[str, str | None]
    unknown: tuple[str, ...]
    problem: str | None = None  # why the shell text could not be split into words

    def text(self, name: str) -> str | None:
        """Value of a flag, None when absent or a switch."""
        return self.args.get(name)

    def has(self, name: str) -> bool:
        """Whether the flag is given."""
        return name in self.args

    def json(self, name: str) -> Mapping[str, object] | None:
        """Value of a JSON flag with dotted forms merged; None when absent or not an object."""
        raw = self.args.get(name)
        out: dict[str, object] = {}
        if raw:
            try:
                value = json.loads(raw)
            except json.JSONDecodeError:
                return None
            if not isinstance(value, dict):
                return None
            out.update(value)
        for key, text in self.args.items():
            if key.startswith(name + ".") and text is not None:
                out[key[len(name) + 1 :]] = _scalar(text)
        return out if raw or out else None


def _scalar(text: str) -> object:
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value


_VLLM_SERVE = re.compile(r"(?:^|[;&|\s])(?:exec\s+)?(?:[\w./-]*/)?vllm\s+serve(?=\s|$)")


def find_command(script: Sequence[str], env: Mapping[str, str]) -> ParsedCommand | None:
    """The vLLM command in a container's command line, with variables filled in from `env` where they are known.

    Accepts a shell script as one argument, plain words, and ``python -m vllm.entrypoints.openai.api_server``.
    Returns None when there is no vLLM command.
    """
    scripts = [s for s in script if _VLLM_SERVE.search(s)]
    if scripts:
        text = scripts[0]
        found = _VLLM_SERVE.search(text)
        if found is None:
            return None
        try:
            known = variables(text[: found.start()], env)
            split = split_command(text[found.end() :], known)
        except ShellSyntaxError as error:
            return ParsedCommand(model="", args={}, unknown=(), problem=str(error))
        return _parse_words(split)
    words = list(script)
    for i, word in enumerate(words):
        if word == "serve" and i and words[i - 1].endswith("vllm"):
            return _parse_words([_kubernetes(w, env) for w in words[i + 1 :]])
        if word == "vllm.entrypoints.openai.api_server":
            return _parse_words([_kubernetes(w, env) for w in words[i + 1 :]])
    if words and words[0].startswith("--") and any(w.split("=")[0] == "--model" for w in words):
        return _parse_words([_kubernetes(w, env) for w in words])
    return None


def _kubernetes(word: str, env: Mapping[str, str]) -> str:
    """`word` with ``$(NAME)`` filled in, the one form Kubernetes expands without a shell."""
    return re.sub(r"\$\((\w+)\)", lambda m: env.get(m[1], m[0]), word)


def _parse_words(words: Sequence[str]) -> ParsedCommand:
    args: dict[str, str | None] = {}
    unknown: list[str] = []
    model = ""
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("-"):
            model = model or word
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if "." in name:  # dotted form of a JSON flag keeps its sub-key as written
            head = name.split(".", 1)[0]
            name = head + "." + word.lstrip("-").partition("=")[0].split(".", 1)[1]
        name = _BY_ALIAS.get(name, name)
        flag = FLAGS.get(name.split(".", 1)[0])
        takes_value = flag.kind is not FlagKind.SWITCH if flag else not equals and _is_value(words, i)
        if equals:
            given: str | None = value
        elif takes_value and i < len(words):
            given = words[i]
            i += 1
        else:
            given = None
        if flag is None and name != "model":
            unknown.append(f"--{name}" if given is None else f"--{name}={given}")
        if name == "model":
            model = given or model
        else:
            args[name] = given
    return ParsedCommand(model=model, args=args, unknown=tuple(unknown))


def _is_value(words: Sequence[str], i: int) -> bool:
    return i < len(words) and not words[i].startswith("--")
