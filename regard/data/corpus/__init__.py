"""Corpora: reading, filtering, holding out and packing parallel text, all in streams."""

from regard.data.corpus.reading import read_lines, read_pairs

__all__ = ["read_lines", "read_pairs"]
