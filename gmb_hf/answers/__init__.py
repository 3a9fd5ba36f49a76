"""What checkpoints answer to prompts, and what judges think of it: scores by run and step."""
