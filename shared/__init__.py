"""What all four services share; no rule of any one service."""
