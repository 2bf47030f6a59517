"""Engine metrics per DP rank: names, parsing, windows, and the ways to reach them."""
