"""Protocols: many phases of training, and what is left of the earlier ones after the later ones."""
