"""How many GPUs a load needs: the smallest fleet per GPU type, its plan, and what it still carries when nodes are lost."""
