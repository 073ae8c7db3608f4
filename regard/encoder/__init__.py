"""Encoders: `forward(vectors, mask) -> Memory`. They see the whole input at once and return one state per position."""
