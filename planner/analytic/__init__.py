"""L1: the whole legal space as arrays, closed-loop solution, exact front."""
