"""Benchmarks against other toolkits, one file each: `regard bench NAME`.

Both sides do the same work with the same weights or shapes, in turns, in one run; a ratio is of medians.
"""
