"""Searches over what a decoder says comes next: greedy, sampling and beam, and the rules they obey.

A search knows `start` and `step` of a decoder, and nothing else of a model.
"""
