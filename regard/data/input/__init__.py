"""Inputs: raw text, images, sound, clips or series to the arrays that a stem reads."""
