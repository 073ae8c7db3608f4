"""Recording: run a model on one input, capture what its layers compute, and return it as a trace."""
