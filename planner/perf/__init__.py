"""The performance model: operators, memory, communication, step time."""
