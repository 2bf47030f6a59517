"""Benchmark campaigns: which runs tell most, the load to put on them, and their rendering as Kubernetes Jobs."""
