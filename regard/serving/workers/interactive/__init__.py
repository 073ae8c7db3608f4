"""What a page asks while somebody works on a text: questions to one model about one sentence, a file each."""
