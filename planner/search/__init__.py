"""The search space, the front and the recommendation."""
