"""One verb per file; the only place that opens and commits a transaction."""
