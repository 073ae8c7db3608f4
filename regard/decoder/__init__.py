"""Decoders: `start(memory, rows, capacity) -> state`, `step(ids, state) -> (logits, state)`.

Training starts with capacity 0 (nothing is cached) and calls `step` once with all positions; generation starts with
the longest output it will make and calls `step` position by position. A state given to `step` is consumed.
"""
