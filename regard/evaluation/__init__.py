"""Metrics of outputs against references. Knows nothing of models."""
