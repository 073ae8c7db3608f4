"""Positions: `forward(positions)` gives a vector for each position number; `limit` is the longest there is, or None."""
