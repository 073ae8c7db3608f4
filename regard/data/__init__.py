"""Data: formats, inputs, targets, tokenizers, corpora and batches. Knows nothing of layers or models."""
