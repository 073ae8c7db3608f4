"""Formats: files as others publish them, or examples made on the spot, to raw examples."""
