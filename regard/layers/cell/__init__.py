"""Cells: one layer of recurrence. `step` is the slide's equations; `forward` runs them over a sentence.

Unwatched, a sentence goes through torch's fused kernel, which computes the same equations at once.
"""
