"""Text before and after translation: sentence splitting, language detection, HTML, placeholders, tag placement."""
