"""Builders, the oracle and the stack that the suites share; imports no service."""
