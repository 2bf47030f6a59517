"""Studies: searches over simulated and measured results that propose, remember and learn. Optuna is imported only here."""
