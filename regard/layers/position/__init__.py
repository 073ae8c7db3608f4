"""Position encodings: `forward(positions)` returns a vector for each position number."""
