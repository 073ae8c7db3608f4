"""Attentions: `forward(query, memory, mask)` mixes what is remembered by how well it matches each query.

query (B, T, D), memory (B, S, D), mask broadcastable to (B, T, S) with True where a query may look; gives (B, T, D).
Each tells its watcher the "weights", (B, heads, T, S).
"""
