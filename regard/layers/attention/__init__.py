"""Attentions: each weighs the memory by how well it matches each query (interface: `_base.py`)."""
