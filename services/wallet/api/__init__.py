"""HTTP in: schemas and routes. Money is a decimal string, times are RFC 3339."""
