"""What the commands do: explore, lock, evaluate, and all of it in a row."""
