"""How much work is an update? Floating-point operations of the matrix products that the mathematics needs.

Counted for real tokens only, so padding is waste; causal attention counts what it may look at, so half the
square; nothing for embeddings, norms, softmax, dropout or Adam, and nothing twice: what is computed again in
backward is waste, too. A product of (n × k) and (k × m) is 2·n·k·m operations, and backward makes two such
products for each one of forward: three in all. The share of the machine's peak in these terms is what the
literature calls model FLOPs utilisation (MFU).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def multiplications(
    shape: Mapping[str, int], vocabulary: int, sources: Sequence[int], targets: Sequence[int]
) -> int:
    """Multiplications (each with its addition) of one forward pass over sentence pairs of these lengths.

    Lengths count tokens, ends included. With D width, F feed-forward, V vocabulary, s and t the lengths:

        an encoder layer:   s·(4D² + 2DF) + 2D·s²
        a decoder layer:    t·(6D² + 2DF) + s·2D²  (queries, outputs and self-attention; keys and values of s)
                            + 2D·t(t+1)/2 + 2D·t·s
        the projection:     t·D·V

    >>> shape = {"width": 2, "feed_forward": 3, "encoder_layers": 1, "decoder_layers": 1}
    >>> multiplications(shape, vocabulary=5, sources=[1], targets=[1])
    94
    """
    width, inner = shape["width"], shape["feed_forward"]
    encoder, decoder = shape["encoder_layers"], shape["decoder_layers"]
    total = 0
    for s, t in zip(sources, targets, strict=True):
        total += encoder * (s * (4 * width**2 + 2 * width * inner) + 2 * width * s * s)
        total += decoder * (t * (6 * width**2 + 2 * width * inner) + s * 2 * width**2)
        total += decoder * (width * t * (t + 1) + 2 * width * t * s)
        total += t * width * vocabulary
    return total


def operations(
    shape: Mapping[str, int], vocabulary: int, sources: Sequence[int], targets: Sequence[int]
) -> int:
    """Floating-point operations of one update, forward and backward."""
    return 3 * 2 * multiplications(shape, vocabulary, sources, targets)
