"""Traces: what a model did with one input, as plain data (arrays, strings). Drawings and JSON are made of it alone."""
