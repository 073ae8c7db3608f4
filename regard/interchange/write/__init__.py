"""Writes models for other programs, a file per format: `export(name, folder, ...)`; `regard export --format`."""
