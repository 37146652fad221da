"""The table and its queries; the only place with SQL."""
