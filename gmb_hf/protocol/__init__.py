"""The evaluation protocol, phase by phase."""
