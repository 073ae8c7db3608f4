"""Drawings of a trace: SVG, matplotlib figures and self-contained HTML pages. Nothing here knows a model."""
