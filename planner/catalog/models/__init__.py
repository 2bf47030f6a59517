"""Models: the catalogue, and the reader of Hugging Face configs behind it."""

from planner.catalog.models.catalogue import ModelEntry, list_models, load_model
from planner.catalog.models.reader import read_model

__all__ = ["ModelEntry", "list_models", "load_model", "read_model"]
