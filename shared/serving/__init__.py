"""How a service runs: roles, probes, signals, and the HTTP protocol under all of it."""

from shared.serving.running import Check, Service, Worker, add_probes, run_service

__all__ = ["Check", "Service", "Worker", "add_probes", "run_service"]
