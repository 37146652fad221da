"""How a service runs: roles, probes, signals, and the HTTP protocol under all of it."""

from shared.serving.running import Check, Service, Worker, add_probes, calm_garbage_collection, run_service

__all__ = ["Check", "Service", "Worker", "add_probes", "calm_garbage_collection", "run_service"]
