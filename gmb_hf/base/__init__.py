"""Base layer: files, documents, errors, statistics, tables; no noun of the field."""
