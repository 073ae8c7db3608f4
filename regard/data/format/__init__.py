"""Formats: read published data files, or generate synthetic examples (made_...), as raw examples."""
