"""Looking inside a model: run it and record a trace, as plain data, then draw pictures of the trace.

record/ runs a model and captures what its layers compute; trace/ is the plain data that comes out; draw/ turns a trace
into SVG, figures and pages, and knows nothing of models.
"""
