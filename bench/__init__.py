"""Scripts for a checkout: the benchmarks of `regard bench`, one file each, and what makes the README's tables."""
