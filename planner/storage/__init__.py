"""The record of studies, measurements and plans."""
