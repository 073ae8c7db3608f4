"""What runs the models: a bounded queue, a pool of worker processes, and the worker itself."""
