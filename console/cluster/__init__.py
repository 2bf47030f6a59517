"""Live state of a cluster that serves models: watched objects, metrics per DP rank, comparison with a plan."""
