"""Models: parts put together into something with `.loss(batch) -> LossSum`."""
