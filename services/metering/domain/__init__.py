"""Covered seconds: folding reports, resolving states, cutting periods. No I/O."""
