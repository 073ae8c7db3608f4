"""Encoders: `forward(vectors, mask) -> Memory`. They see the whole input at once and leave one state a position."""
