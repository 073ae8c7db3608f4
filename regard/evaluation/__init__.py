"""How good an output is, measured against references. Nothing here knows what made the output."""
