"""Those we compare our training with: each as its documentation trains it, at the same sizes and dropout.

Weights start from the distribution of ours (Xavier; embeddings with a deviation of width^-½), so that losses
can be compared after a few updates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.training import DROPOUT, SMOOTHING, Task, Training
from glassformer.config import VocabularyConfig
from glassformer.data.batch import Batch


class TorchTransformer(Training):
    """torch.nn.Transformer in a good plain script: embeddings, positions, tied output, cross-entropy."""

    def build(self) -> nn.Module:
        return PlainTorch(self.task)

    def loss(self, batch: Batch) -> Tensor:
        return smoothed(self.model(batch), batch)


class PlainTorch(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        shape, size = task.shape, task.vocabulary.source_size
        width = shape["width"]
        self.embedding = nn.Embedding(size, width, padding_idx=task.vocabulary.source_pad)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.table: Tensor
        self.register_buffer("table", plain_sinusoids(512, width))
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            width, shape["heads"], shape["encoder_layers"], shape["decoder_layers"], shape["feed_forward"],
            DROPOUT, batch_first=True,
        )  # fmt: skip
        self.factor = math.sqrt(width)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.factor + self.table[: ids.shape[1]])

    def forward(self, batch: Batch) -> Tensor:
        padding = ~real_source(batch)
        causal = nn.Transformer.generate_square_subsequent_mask(batch.target_in_BT.shape[1])
        states = self.transformer(
            self.embed(batch.source_BS), self.embed(batch.target_in_BT), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return F.linear(states, self.embedding.weight)


class HuggingFace(Training):
    """Hugging Face's Marian with scaled_dot_product_attention, in a plain PyTorch loop."""

    def build(self) -> nn.Module:
        return marian(self.task.shape, self.task.vocabulary)

    def loss(self, batch: Batch) -> Tensor:
        out = self.model(
            input_ids=batch.source_BS,
            attention_mask=real_source(batch).long(),
            decoder_input_ids=batch.target_in_BT,
        )
        return smoothed(out.logits, batch)


def marian(shape: Mapping[str, int], vocabulary: VocabularyConfig) -> Any:
    """A MarianMTModel of this size, with fresh weights."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocabulary.source_size,
        d_model=shape["width"],
        encoder_layers=shape["encoder_layers"],
        decoder_layers=shape["decoder_layers"],
        encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"],
        encoder_ffn_dim=shape["feed_forward"],
        decoder_ffn_dim=shape["feed_forward"],
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=DROPOUT,
        scale_embedding=True,
        pad_token_id=vocabulary.source_pad,
        eos_token_id=vocabulary.eos,
        decoder_start_token_id=vocabulary.start,
        forced_eos_token_id=None,
        init_std=0.02,
    )
    model: Any = MarianMTModel._from_config(config, attn_implementation="sdpa")
    start_like_ours(model, shape["width"])
    return model


class XTransformers(Training):
    """x-transformers' Encoder and Decoder, put together as its XTransformer does.

    XTransformer itself can't tie the output to the embeddings and has no label smoothing, so its two halves
    are built by hand with the library's own options: norms after the sub-layers, ReLU, flash attention.
    """

    def build(self) -> nn.Module:
        return XTransformerPair(self.task)

    def loss(self, batch: Batch) -> Tensor:
        return smoothed(self.model(batch), batch)


class XTransformerPair(nn.Module):
    def __init__(self, task: Task) -> None:
        from x_transformers import Decoder, Encoder, TransformerWrapper
        from x_transformers.x_transformers import TokenEmbedding

        super().__init__()
        shape, size, width = task.shape, task.vocabulary.source_size, task.shape["width"]

        class ScaledEmbedding(TokenEmbedding):  # type: ignore[misc]
            """The embedding times √width, as in the paper."""

            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) * math.sqrt(width)

        layers: dict[str, Any] = {
            "dim": width,
            "heads": shape["heads"],
            "pre_norm": False,
            "attn_dim_head": width // shape["heads"],
            "attn_flash": True,
            "attn_dropout": DROPOUT,
            "attn_sublayer_dropout": DROPOUT,
            "ff_mult": shape["feed_forward"] / width,
            "ff_custom_activation": nn.ReLU(),
            "ff_sublayer_dropout": DROPOUT,
            "verbose": False,
        }
        wrapper: dict[str, Any] = {
            "num_tokens": size,
            "max_seq_len": 512,
            "emb_dropout": DROPOUT,
            "scaled_sinu_pos_emb": True,
            "token_emb": ScaledEmbedding(width, size),
        }
        self.encoder = TransformerWrapper(
            **wrapper, return_only_embed=True, attn_layers=Encoder(depth=shape["encoder_layers"], **layers)
        )
        self.decoder = TransformerWrapper(
            **wrapper,
            tie_embedding=True,
            tie_embedding_scale=1.0,
            attn_layers=Decoder(depth=shape["decoder_layers"], cross_attend=True, **layers),
        )
        start_like_ours(self, width)
        for part in (self.encoder, self.decoder):
            nn.init.ones_(part.pos_emb.scale)

    def forward(self, batch: Batch) -> Tensor:
        real = real_source(batch)
        states = self.encoder(batch.source_BS, mask=real)
        return self.decoder(batch.target_in_BT, context=states, context_mask=real)


def start_like_ours(model: nn.Module, width: int) -> None:
    """Xavier for matrices, a deviation of width^-½ for embeddings; norms and biases stay as they are."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for parameter in model.parameters():
        if id(parameter) in tables:
            nn.init.normal_(parameter, std=width**-0.5)
        elif parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter)


def real_source(batch: Batch) -> Tensor:
    """True where there is a source token."""
    return torch.arange(batch.source_BS.shape[1]) < batch.source_lengths_B[:, None]


def smoothed(logits: Tensor, batch: Batch) -> Tensor:
    """The mean label-smoothed loss over the real target tokens."""
    padding = torch.arange(batch.target_out_BT.shape[1]) >= batch.target_lengths_B[:, None]
    targets = batch.target_out_BT.masked_fill(padding, -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=SMOOTHING)


def plain_sinusoids(length: int, width: int) -> Tensor:
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
