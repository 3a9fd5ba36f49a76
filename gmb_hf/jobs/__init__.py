"""What a user starts as a whole: a run, the trial, the demo, trainers, the metrics."""
