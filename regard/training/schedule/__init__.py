"""How the learning rate moves: each file is a factory `(learning_rate, warmup, steps)` of a function of the step."""
