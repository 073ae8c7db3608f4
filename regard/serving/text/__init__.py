"""Translates the texts of requests: language detection, models one after the other, long texts in a thread."""
