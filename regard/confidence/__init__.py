"""How likely a translation, and each of its words, is right: from the log-probabilities of its tokens, calibrated.

words.py says what a word is, features.py what is known of one, calibration.py turns that into a probability, fitting.py
finds its weights, and reliability.py measures it. Knows no model and imports no torch.
"""
