"""What models learn: modular arithmetic, formal languages and text, as arrays and datasets."""
