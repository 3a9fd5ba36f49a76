"""The pages of the metrics' Spaces: paste or upload data, see the result with a figure."""
