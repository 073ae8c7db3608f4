"""Targets: what is wanted of an input, as numbers and back. What is learnt of them is saved with the model."""
