"""Inputs: raw examples of one kind (text, image, sound, clip, series) to the arrays a stem reads."""
