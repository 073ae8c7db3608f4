"""The lectures' claims as runnable experiments: `regard lab` lists them, `regard lab NAME` runs one.

Every file here is an experiment of the same name; files that begin with an underscore are shared code.
"""
