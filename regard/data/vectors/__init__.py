"""Vectors of words, learnt from how often words stand near one another, or read from a file. Knows no models."""
