"""Models: parts assembled into something with `.loss(batch) -> LossSum`."""
