"""The laws of the field as experiments."""
