"""What happens to text on its way to a model and back: sentence splitting, markup, placeholders, tag placement."""
