"""A figure as plain JSON data, without the template: the client lays its own appearance under it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go


def plain(figure: go.Figure) -> dict[str, Any]:
    """``{"data": …, "layout": …}`` with arrays in plotly's base64 form."""
    figure.layout.template = None
    document: dict[str, Any] = json.loads(figure.to_json(validate=False))
    document["layout"].pop("template", None)
    return document


def plotly_script() -> Path:
    """The plotly.js of the installed plotly package."""
    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
