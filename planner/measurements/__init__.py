"""Measured results: import, validation, calibration."""
