"""Reads the text of PDF files: runs of text (runs), lines and paragraphs put together from them (lines, paragraphs), in
a process of its own with limits (extraction).

A PDF says where each run of text is drawn, not what is a paragraph, a heading or a table: these are inferred. Its
translation is written as another format.
"""
