"""Results shown: the specification's tables, figures, and a report that opens with the answer."""
