"""Start the app from the command line's arguments."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

from console.tui.app import PlannerApp, action_ids
from console.tui.services import ClusterChoice, real_services
from console.tui.settings import Settings, load_settings, settings_path
from console.tui.themes import PLAIN, THEMES
from planner.domain.errors import InputError, Issue, MissingDataError, did_you_mean
from planner.search.ask import Request
from planner.search.from_recipe import with_recipe


def run(
    flags: Request,
    *,
    recipe: str | None,
    theme: str | None,
    config: Path | None,
    cluster: ClusterChoice,
    study: str | None = None,
) -> int:
    """Run the app until the user leaves; returns the exit status. Raises PlannerError for what is wrong before it starts."""
    settings = _settings(theme, config)
    request: Request | None = with_recipe(recipe, flags) if recipe is not None else flags
    origin = f"recipe {recipe}" if recipe is not None else "the command line"
    app = PlannerApp(
        real_services(),
        request=request if study is None else None,
        origin=origin,
        settings=settings,
        cluster=cluster,
        study=study or "",
    )
    asyncio.run(_run(app))
    return app.return_code or 0


async def _run(app: PlannerApp) -> None:
    await app.run_async()
    if app.computing:
        # A simulation may take a minute to its end and cannot be interrupted inside its kernel; every record is committed
        # as it is made, so nothing is lost by leaving at once.
        sys.stdout.flush()
        os._exit(app.return_code or 0)


def _settings(theme: str | None, config: Path | None) -> Settings:
    names = tuple(t.name for t in THEMES)
    path = config or settings_path()
    if config is not None and not config.is_file():
        raise MissingDataError(
            Issue(code="file.not_found", what=str(config), why="there is no such file", fix="name a YAML file",
                  where="--config")
        )  # fmt: skip
    settings = load_settings(path, themes=names, known_actions=action_ids)
    if theme is not None:
        if theme not in names:
            raise InputError(
                Issue(code="tui.theme", what=f"--theme {theme}", why="there is no such theme",
                      fix=did_you_mean(theme, names), where="--theme")
            )  # fmt: skip
        return replace(settings, theme=theme)
    if settings.theme is None and os.environ.get("NO_COLOR"):
        return replace(settings, theme=PLAIN)
    return settings
