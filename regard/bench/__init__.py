"""Side-by-side measurements: a benchmark is a file here, and `regard bench NAME` runs it.

Each does the same work as a peer with the same weights or shapes, in turns and in one run; a ratio is one of medians.
"""
