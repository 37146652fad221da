"""Pricing: price books, and what seconds cost under them."""
