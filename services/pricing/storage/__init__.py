"""The tables of pricing and every query on them."""
