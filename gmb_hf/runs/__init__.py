"""What a training left: run logs (one row per run and step) and the panels cut from them."""
