"""Decoding: greedy, sampling and beam search, and the rules that constrain them.

A search knows `start` and `step` of a decoder and nothing else about a model.
"""
