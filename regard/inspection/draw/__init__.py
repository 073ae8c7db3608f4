"""Drawing a trace: SVG, matplotlib figures and self-contained HTML pages. No access to models.

views/ composes the pictures of each view; the other files draw one kind of picture each.
"""
