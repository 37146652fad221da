"""HTTP in: schemas and routes."""
