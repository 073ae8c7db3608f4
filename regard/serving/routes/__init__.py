"""What the server answers, a file for each contract. A route reads its fields, asks, and shapes the answer; nothing else."""
