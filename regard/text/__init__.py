"""Text before and after translation: sentence splitting, HTML, placeholders, tag placement. Knows no models."""
