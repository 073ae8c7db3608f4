"""Recording: run a model on one input, capture what its layers compute, and return a trace. One file per task."""
