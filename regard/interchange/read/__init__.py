"""Reads models of other programs, a file per format: `read(place, note)` returns what a model folder is made of."""
