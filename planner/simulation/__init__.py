"""L2: discrete-event simulation of engines, routers and caches."""
