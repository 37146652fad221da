"""HTTP in: the usage query, and requests to tell facts again."""
