"""Text in, batches out: normalisation, tokenizers, corpora and batching. Knows nothing of layers or models."""
