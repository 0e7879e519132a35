"""Metrics for Prometheus: how many requests, how they ended, how long they took."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "pai_marketplace_requests",
            "Requests, by method and status.",
            ["method", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "pai_marketplace_request_seconds",
            "Seconds until a request was answered.",
            registry=self._registry,
        )

    def observe(self, method: str, status: int, seconds: float) -> None:
        """Count a request; methods that nobody knows are one."""
        self._requests.labels(method if method in _METHODS else "other", str(status)).inc()
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)
