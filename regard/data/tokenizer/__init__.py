"""Tokenizers: a kind in a recipe is a file here."""
