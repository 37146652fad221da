"""Typed clients of other services; pricing calls none."""
