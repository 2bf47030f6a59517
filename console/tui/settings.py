"""The user's own settings: theme and key map, read from one YAML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from planner.domain.errors import InputError, Issue, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`keys` maps action ids (docs/tui.md) to comma-separated key names. `theme` None: the default."""

    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)


def settings_path() -> Path:
    """Where the settings are looked for."""
    from platformdirs import user_config_path

    return user_config_path("wideplan") / "tui.yaml"


def load_settings(
    path: Path, *, themes: tuple[str, ...], known_actions: Callable[[], frozenset[str]]
) -> Settings:
    """Read `path`; defaults when it is not there.

    Raises InputError ``tui.settings`` with everything that is wrong: not YAML, unknown entry, theme or action.
    """
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(
            _issue(path, f"{path} cannot be read", str(error).splitlines()[0], "correct the file")
        ) from None
    if data is None:
        return Settings()
    if not isinstance(data, dict):
        raise InputError(
            _issue(path, "not a mapping", "settings are 'theme:' and 'keys:'", "see docs/tui.md")
        )
    issues = [
        _issue(path, f"'{name}'", "it is no setting", did_you_mean(str(name), ("theme", "keys")))
        for name in data
        if name not in {"theme", "keys"}
    ]
    theme = data.get("theme")
    if theme is not None and theme not in themes:
        issues.append(
            _issue(path, f"theme '{theme}'", "there is no such theme", did_you_mean(str(theme), themes))
        )
    keys = data.get("keys") or {}
    if not isinstance(keys, dict):
        issues.append(_issue(path, "keys", "it maps actions to keys", "write keys: {frontier.pin: space}"))
        keys = {}
    actions = known_actions() if keys else frozenset()  # listing them loads every screen
    for action, key in keys.items():
        if action not in actions:
            issues.append(
                _issue(
                    path, f"action '{action}'", "there is no such action", did_you_mean(str(action), actions)
                )
            )
        elif not isinstance(key, str) or not key.strip():
            issues.append(_issue(path, f"{action}: {key}", "a key is a word such as ctrl+p", "name a key"))
    if issues:
        raise InputError(*issues)
    return Settings(theme=theme, keys={str(a): str(k) for a, k in keys.items()})


def _issue(path: Path, what: str, why: str, fix: str) -> Issue:
    return Issue(code="tui.settings", what=what, why=why, fix=fix, where=str(path))
