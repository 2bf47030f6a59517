"""Models: the catalogue, and the reader of Hugging Face configs behind it."""

from planner.catalog.models.reader import read_model

__all__ = ["read_model"]
