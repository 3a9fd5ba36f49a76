"""The benchmark: from scores and events to one verdict per score (spec GMB v0.4)."""
