"""Attentions: each mixes what is remembered by how well it matches each query (what all have in common: `_base.py`)."""
