"""Fitting of operator curves from measured tables; a developer tool behind the extra ``opdb``."""
