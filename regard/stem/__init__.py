"""Stems: raw input to a sequence of vectors. `forward(source, mask) -> (vectors, mask)`, both batch first."""
