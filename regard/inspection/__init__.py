"""Looking inside: what a model attended to, which word came from which, and pictures of it."""
