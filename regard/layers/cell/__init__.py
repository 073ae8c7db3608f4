"""Recurrent cells: `step` has the equations of one position; `forward` runs them over a sequence.

Without an observer, `forward` uses torch's fused kernel for the same equations, where there is one.
"""
