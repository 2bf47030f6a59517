"""Operator curves: time of one kernel or collective as a function of its load."""
