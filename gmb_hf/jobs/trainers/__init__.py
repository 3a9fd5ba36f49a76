"""Training under Accelerate, on several processes or machines: `accelerate launch -m ...`."""
