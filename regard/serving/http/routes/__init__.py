"""What the server answers, a file for each contract: a route reads its fields, asks, and shapes the answer."""
