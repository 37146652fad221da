"""What `make bench` measures. Every run ends by adding up what came out: a fast loss is no result."""
