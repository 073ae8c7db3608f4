"""Targets: labels, tags, texts, ... as numbers. What a target learns from the data is saved with the model."""
