"""Decoders: `start(memory, beams, capacity) -> state`, `step(ids, state) -> (logits, state)`.

Training starts with capacity 0 (no KV cache) and calls `step` once with all positions; generation starts with the
maximum output length and calls `step` position by position. `step` consumes the state it receives: it may write to it
in place.
"""
