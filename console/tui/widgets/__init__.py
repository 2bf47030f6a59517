"""Widgets that know nothing of planning except the view-models they show."""
