"""Models for other programs: a format is a file here, and `regard export --to NAME` writes it."""
