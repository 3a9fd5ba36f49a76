"""GMB-HF."""
