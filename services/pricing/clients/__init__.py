"""Typed clients of other services; pricing calls metering alone."""
