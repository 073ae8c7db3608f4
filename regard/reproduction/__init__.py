"""Published scores, measured again on the published terms: `regard reproduce`.

rows.toml says what is measured, rows.py reads it, measuring.py trains and scores, record.py keeps what was found, and
page.py writes the page from rows and records alone.
"""
