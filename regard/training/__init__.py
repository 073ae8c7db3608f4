"""Training: steps, checkpoints, schedules and progress. A model is known only as something with `.loss(batch)`."""
