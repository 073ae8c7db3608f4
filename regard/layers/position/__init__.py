"""Positions: `forward(positions)` gives one vector for each position number; `limit` is the longest there is, or None."""
