"""Model inspection: run a model on one input, record a trace of what it computed, and draw the trace.

record/ runs a model and captures what its layers compute; trace/ is the plain data that comes out; draw/ turns a trace
into SVG, matplotlib figures and HTML pages without access to the model.
"""
