"""Every limit of the server, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServeSettings:
    """What a server allows. The defaults suit one machine and the people on it."""

    api_keys: tuple[str, ...] = ()
    """who may translate; empty: everybody who reaches the port"""
    cors: tuple[str, ...] = ()
    """origins of other pages whose scripts may read answers; empty: none"""
    beams: int = 8
    """most beams a request may ask for"""
    alternatives: int = 7
    """most alternatives a request may ask for"""
    characters: int = 5000
    """longest text"""
    texts: int = 256
    """most texts in one request"""
    sentences: int = 1024
    """most sentences in one request, over all its texts"""
    inspect_characters: int = 600
    """longest sentence that is looked into"""
    body_bytes: int = 1 << 20
    """largest request body"""
    seconds: float = 30.0
    """time for an answer, waiting included"""
    body_seconds: float = 10.0
    """time for a client to send its headers, and again for its body"""
    queue: int = 4096
    """sentences that may wait; more are refused with 429"""
    batch: int = 64
    """most sentences translated at once; 1 turns batching off"""
    batch_characters: int = 8192
    """most characters translated at once, each sentence counted as long as the longest"""
    linger: float = 0.002
    """seconds that a first sentence waits for company; a few times that while more keeps coming"""
    workers: int = 1
    """batches translated at the same time"""
    connections: int = 512
    """most open connections"""

    def problems(self) -> list[str]:
        found = []
        for key in (
            *("beams", "characters", "texts", "sentences", "inspect_characters", "body_bytes"),
            *("queue", "batch", "batch_characters", "workers", "connections"),
        ):
            if getattr(self, key) < 1:
                found.append(f"{key} = {getattr(self, key)} must be at least 1")
        for key in ("seconds", "body_seconds"):
            if getattr(self, key) <= 0:
                found.append(f"{key} = {getattr(self, key)} must be above 0")
        for key in ("alternatives", "linger"):
            if getattr(self, key) < 0:
                found.append(f"{key} = {getattr(self, key)} must not be negative")
        if self.sentences > self.queue:
            found.append(f"sentences = {self.sentences} would never fit into queue = {self.queue}")
        if any(not key for key in self.api_keys):
            found.append("api_keys holds an empty key")
        return found
