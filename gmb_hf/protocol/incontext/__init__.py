"""In-context probes (phase 2c)."""
