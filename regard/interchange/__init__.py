"""Models for other programs: a format is a file here, and `regard export --format NAME` writes it."""
