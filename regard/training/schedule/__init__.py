"""Learning rate schedules. Each file is a factory that returns the learning rate as a function of the step.

A factory takes what it needs of `learning_rate`, `warmup` and `steps`, and further keywords from the recipe's table, as
in `training.schedule = {kind = "cosine", floor = 0.1}`. Other packages add kinds by entry points of the group
`regard.training.schedule`.
"""
