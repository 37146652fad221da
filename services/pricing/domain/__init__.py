"""Price books and rating: frozen data and pure functions."""
