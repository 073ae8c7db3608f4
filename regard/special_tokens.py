"""The four special ids that every tokenizer begins with."""

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
