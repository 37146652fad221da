"""The wallet calls no other service."""
