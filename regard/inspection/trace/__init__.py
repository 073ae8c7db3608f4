"""Traces: what a model computed for one input, as plain data (arrays, strings). Drawings and JSON use nothing else."""
