"""From tokens to batches: the memory-mapped store and the order of training."""
