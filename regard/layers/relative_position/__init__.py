"""Relative positions: what the distance between two positions adds to a score of self-attention."""
