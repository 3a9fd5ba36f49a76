"""Readers of log files, one format a file; `registry` knows which reads what."""
