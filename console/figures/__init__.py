"""Plotly figures built from the view-models; the only place that knows plotly."""
