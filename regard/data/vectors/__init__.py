"""Word vectors: co-occurrence counts, GloVe, files and nearest neighbours. Knows no models."""
