"""Numbers for Prometheus: how many, how fast, how full. Nothing that a person typed, nobody's address."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """One server's numbers; labels are routes and status codes."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "glassformer_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "glassformer_request_seconds",
            "Time from the first header to the last byte.",
            ["route"],
            registry=registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.characters = Counter(
            "glassformer_characters", "Characters of text translated.", registry=registry
        )
        self.batches = Histogram(
            "glassformer_batch_sentences",
            "Sentences translated at once.",
            registry=registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
        )
        self.waiting = Gauge("glassformer_waiting_sentences", "Sentences in the queue.", registry=registry)
        self.refused = Counter(
            "glassformer_refused", "Requests refused because the queue was full.", registry=registry
        )

    def text(self) -> bytes:
        return generate_latest(self.registry)
