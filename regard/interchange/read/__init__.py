"""Readers of foreign models, a file per format: `read(place, note) -> Imported`."""
