"""Parallel corpora: reading, filtering, holding out and packing, all as streams."""

from regard.data.corpus.reading import read_lines, read_pairs

__all__ = ["read_lines", "read_pairs"]
