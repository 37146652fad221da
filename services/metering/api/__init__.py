"""HTTP in: the usage query."""
