"""Architectures of Hugging Face's folders, a file each: config -> recipe, and their tensors' names <-> ours as data."""
