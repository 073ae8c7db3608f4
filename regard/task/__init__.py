"""Tasks: how a trained model is used, in the words of the person who uses it. One file for each."""
