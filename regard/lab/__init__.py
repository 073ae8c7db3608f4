"""The lectures' claims as runnable experiments: `regard lab` lists them, `regard lab NAME` runs one.

Every file here is an experiment and its name is the file's; files that begin with an underscore are what all share.
"""
