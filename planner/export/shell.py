"""Enough of the shell to know which command a start script runs: words, variables, arithmetic, simple if and case.

Quoting, parameter defaults and word splitting follow POSIX. Conditions are decided only when they compare text; anything
else counts as true. Unknown variables stay as written, so that their names show in messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGN = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=")
_ENDS = frozenset("\n;|&")


class ShellSyntaxError(ValueError):
    """A quote that is not closed."""


@dataclass(slots=True)
class _Reader:
    """Reads words from `text` at `at`."""

    text: str
    env: Mapping[str, str]
    at: int = 0
    word: str = ""
    started: bool = False  # a word is being built, perhaps an empty one
    words: list[str] = field(default_factory=list)

    def command(self) -> list[str]:
        """Words up to the end of the command."""
        while self.at < len(self.text) and self.text[self.at] not in _ENDS:
            c = self.text[self.at]
            if c in " \t":
                self._finish()
                self.at += 1
            elif c == "#" and not self.started:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                self._piece()
        self._finish()
        return self.words

    def single(self) -> str:
        """One word, as the right-hand side of an assignment: no splitting."""
        while (
            self.at < len(self.text) and self.text[self.at] not in " \t" and self.text[self.at] not in _ENDS
        ):
            self._piece(split=False)
        return self.word

    def _finish(self) -> None:
        if self.started:
            self.words.append(self.word)
        self.word, self.started = "", False

    def _add(self, text: str) -> None:
        self.word += text
        self.started = True

    def _piece(self, *, split: bool = True) -> None:
        c = self.text[self.at]
        if c == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise ShellSyntaxError("No closing quotation")
            self._add(self.text[self.at + 1 : end])
            self.at = end + 1
        elif c == '"':
            self._double()
        elif c == "\\":
            following = self.text[self.at + 1 : self.at + 2]
            if following != "\n":
                self._add(following)
            self.at += 2
        elif c == "$":
            start = self.at
            value = self._expansion()
            split = split and value != self.text[start : self.at]  # what stays as written stays in one piece
            parts = value.split() if split else [value]
            if len(parts) > 1 or (split and value[:1].isspace()):
                self._split(value, parts)
            elif value or not split:
                self._add(value)
        else:
            self._add(c)
            self.at += 1

    def _split(self, value: str, parts: list[str]) -> None:
        if value[:1].isspace():
            self._finish()
        for i, part in enumerate(parts):
            if i:
                self._finish()
            self._add(part)
        if value[-1:].isspace():
            self._finish()

    def _double(self) -> None:
        self.at += 1
        self._add("")
        while self.at < len(self.text) and self.text[self.at] != '"':
            c = self.text[self.at]
            if c == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                following = self.text[self.at + 1]
                self._add("" if following == "\n" else following)
                self.at += 2
            elif c == "$":
                self._add(self._expansion())
            else:
                self._add(c)
                self.at += 1
        if self.at >= len(self.text):
            raise ShellSyntaxError("No closing quotation")
        self.at += 1

    def _expansion(self) -> str:
        """The value of the ``$`` expression at `at`; moves behind it."""
        rest = self.text[self.at + 1 :]
        if rest.startswith("(("):
            end = self.text.find("))", self.at)
            if end > 0:
                body = self.text[self.at + 3 : end]
                self.at = end + 2
                return arithmetic(body, self.env)
        if rest.startswith("{"):
            end = _closing(self.text, self.at + 1)
            if end > 0:
                body = self.text[self.at + 2 : end]
                raw = self.text[self.at : end + 1]
                self.at = end + 1
                return _parameter(body, raw, self.env)
        if rest.startswith("("):
            end = self.text.find(")", self.at)
            if end > 0:
                raw, body = self.text[self.at : end + 1], self.text[self.at + 2 : end]
                self.at = end + 1
                return self.env.get(
                    body, raw
                )  # $(NAME) is Kubernetes' own form; other commands stay as written
        match = _NAME.match(rest)
        if match is None:
            self.at += 1
            return "$"
        self.at += 1 + match.end()
        return self.env.get(match[0], f"${match[0]}")


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


def _parameter(body: str, raw: str, env: Mapping[str, str]) -> str:
    match = _NAME.match(body)
    if match is None:
        return raw
    value, rest = env.get(match[0]), body[match.end() :]
    if rest.startswith((":-", "-")):
        colon = rest.startswith(":")
        missing = not value if colon else value is None
        default = rest[2:] if colon else rest[1:]
        return _Reader(default, env).single() if missing else str(value)
    return raw if value is None or rest else value


def arithmetic(body: str, env: Mapping[str, str]) -> str:
    """``$(( ))`` with numbers, names, ``+``, ``-`` and ``*``; anything else stays as written."""
    text = re.sub(r"\$\{(\w+)(?::?-([^}]*))?\}", lambda m: env.get(m[1]) or m[2] or m[0], body)
    text = re.sub(r"\$?([A-Za-z_]\w*)", lambda m: env.get(m[1], m[0]), text)
    if not re.fullmatch(r"[\d\s+*-]+", text) or not re.search(r"\d", text):
        return f"$(({body}))"
    total, sign = 0, 1
    for part in re.findall(r"[+-]|[\d\s*]+", text):
        if part in "+-":
            sign = -sign if part == "-" else sign
            continue
        product = 1
        for factor in part.split("*"):
            if not factor.strip().isdigit():
                return f"$(({body}))"
            product *= int(factor)
        total += sign * product
        sign = 1
    return str(total)


def split_command(text: str, env: Mapping[str, str]) -> list[str]:
    """Words of the first command in `text`. Raises ShellSyntaxError."""
    return _Reader(text, env).command()


def variables(script: str, env: Mapping[str, str]) -> dict[str, str]:
    """`env` with the assignments that `script` makes on the way, branches decided where they compare text."""
    known = dict(env)
    active = [True]
    case_word: list[str | None] = []
    taken: list[bool] = []
    at = 0
    while at < len(script):
        end = script.find("\n", at)
        end = len(script) if end < 0 else end
        line = script[at:end].strip()
        following = end + 1
        if line.startswith(("if ", "elif ")):
            met = _condition(line.split(" ", 1)[1], known)
            if line.startswith("if "):
                active.append(active[-1] and met)
                taken.append(met)
            elif len(active) > 1 and taken:
                active[-1] = active[-2] and met and not taken[-1]
                taken[-1] = taken[-1] or met
        elif line == "else" and len(active) > 1 and taken:
            active[-1] = active[-2] and not taken[-1]
        elif (line == "fi" or line.startswith("fi ")) and len(active) > 1 and taken:
            active.pop()
            taken.pop()
        elif line.startswith("case ") and line.endswith(" in"):
            case_word.append(_Reader(line[5:-3].strip(), known).single())
            active.append(False)
            taken.append(False)
        elif line == "esac" and case_word:
            case_word.pop()
            active.pop()
            taken.pop()
        elif line == ";;" and case_word:
            active[-1] = False
        elif case_word and re.fullmatch(r"[^\s()]+\)", line):
            word = case_word[-1] or ""
            met = not taken[-1] and any(fnmatchcase(word, p.strip("'\"")) for p in line[:-1].split("|"))
            active[-1] = active[-2] and met
            taken[-1] = taken[-1] or met
        else:
            match = _ASSIGN.match(script[at:].lstrip(" \t"))
            if match is not None and active[-1]:
                start = at + len(script[at:]) - len(script[at:].lstrip(" \t")) + match.end()
                reader = _Reader(script, known, start)
                known[match[1]] = reader.single()
                after = script.find("\n", reader.at)
                following = len(script) if after < 0 else after + 1
        at = following
    return known


def _condition(text: str, env: Mapping[str, str]) -> bool:
    """A ``[ a = b ]``, ``[ -n a ]`` or ``[ -z a ]`` test; True when it is anything else."""
    match = re.match(r"\[\[?\s+(.*?)\s+\]\]?", text)
    if match is None:
        return True
    words = _Reader(match[1], env).command()
    if any(w.startswith("$") for w in words):
        return True
    if len(words) == 3 and words[1] in ("=", "==", "!="):
        return (words[0] == words[2]) == (words[1] != "!=")
    if words and words[0] in ("-n", "-z"):
        return bool("".join(words[1:])) == (words[0] == "-n")
    return True
