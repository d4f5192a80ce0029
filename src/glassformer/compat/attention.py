"""`MultiheadAttention`: torch.nn's module, computed by Glassformer's attention.

    from glassformer.compat import MultiheadAttention     # in place of: from torch.nn import …

It derives from torch's class, so that everything but the computation is torch's by construction: arguments,
parameter names and shapes, initial weights, `isinstance`. What comes out is equal, gradients and dropout
for a given seed included, and so are the errors. It departs in three things, all on the safe side:

- a row that may attend nothing gets weights of 0, where torch gives NaN with `need_weights=True`;
- byte masks are taken, and mean what they meant when torch took them: other than 0 keeps out;
- the types of the masks need match neither each other nor the input.

Inside `nn.TransformerEncoderLayer`, in eval mode without gradients, torch's fast path reads the weights of
the attention but never calls it; after `torch.backends.mha.set_fastpath_enabled(False)` it is called.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.compat.checks import check_axes, check_mask_types, check_sizes, check_widths
from glassformer.compat.masks import may_attend_and_bias
from glassformer.model.attention import attend, attend_fused, merge_heads, split_heads


class MultiheadAttention(nn.MultiheadAttention):
    """A drop-in for torch.nn.MultiheadAttention; state dicts go both ways."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention of `query` over `key` and `value`. All arguments and results are torch's."""
        if query.is_nested or key.is_nested or value.is_nested:  # ragged batches are torch's own affair
            return super().forward(
                query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
        check_mask_types(key_padding_mask=key_padding_mask, attn_mask=attn_mask)
        check_axes(query, key, value, key_padding_mask, attn_mask, self.num_heads)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint: "
                "nn.Transformer.generate_square_subsequent_mask makes one"
            )
        check_widths(query, key, value, self)
        # As in torch, the hint replaces the mask where nothing else needs it. The keys of add_bias_kv and
        # add_zero_attn, which stand last, are then hidden as if they were tokens: that too is torch's way.
        causal = is_causal and key_padding_mask is None and not need_weights
        batched = query.dim() == 3

        q_BTD, k_BSD, v_BSD = (self._batch_first(x) for x in self._project(query, key, value))
        mask = None if causal else attn_mask
        padding_BS = key_padding_mask if batched or key_padding_mask is None else key_padding_mask[None]
        check_sizes(q_BTD, k_BSD, padding_BS, mask, self.num_heads)
        may_attend, bias = may_attend_and_bias(mask, padding_BS, self.num_heads, q_BTD.dtype)
        k_BSD, v_BSD, extra = self._with_extra_keys(k_BSD, v_BSD)
        may_attend = None if may_attend is None else F.pad(may_attend, (0, extra), value=True)
        bias = None if bias is None else F.pad(bias, (0, extra))

        attended_BTD, weights_BHTS = self._attend(q_BTD, k_BSD, v_BSD, may_attend, bias, causal, need_weights)
        # Back in the caller's layout first: the output is then contiguous, and may be viewed, as torch's.
        given = attended_BTD if self.batch_first or not batched else attended_BTD.transpose(0, 1)
        output = self.out_proj(given if batched else given[0])
        if weights_BHTS is None:
            return output, None
        weights = weights_BHTS.mean(1) if average_attn_weights else weights_BHTS
        return output, weights if batched else weights[0]

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, in whatever layout they came; one product where they are one tensor."""
        if not self._qkv_same_embed_dim:
            weights: tuple[Tensor, ...] = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key and key is value:
            return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        else:
            weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(map(F.linear, (query, key, value), weights, biases))

    def _batch_first(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            return x[None]
        return x if self.batch_first else x.transpose(0, 1)

    def _with_extra_keys(self, k_BSD: Tensor, v_BSD: Tensor) -> tuple[Tensor, Tensor, int]:
        """The learned key of `add_bias_kv` and the zero of `add_zero_attn`: everyone may attend to them."""
        length = k_BSD.shape[1]
        if self.bias_k is not None and self.bias_v is not None:
            k_BSD = torch.cat([k_BSD, self.bias_k.expand(len(k_BSD), -1, -1)], dim=1)
            v_BSD = torch.cat([v_BSD, self.bias_v.expand(len(v_BSD), -1, -1)], dim=1)
        if self.add_zero_attn:
            k_BSD, v_BSD = F.pad(k_BSD, (0, 0, 0, 1)), F.pad(v_BSD, (0, 0, 0, 1))
        return k_BSD, v_BSD, k_BSD.shape[1] - length

    def _attend(
        self,
        q_BTD: Tensor,
        k_BSD: Tensor,
        v_BSD: Tensor,
        may_attend: Tensor | None,
        bias: Tensor | None,
        causal: bool,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The heads side by side, and their weights if they are needed."""
        q_BHTK, k_BHSK, v_BHSK = (split_heads(x, self.num_heads) for x in (q_BTD, k_BSD, v_BSD))
        dropping = self.training and self.dropout > 0
        if not need_weights and not dropping:
            fused_BHTK = attend_fused(q_BHTK, k_BHSK, v_BHSK, may_attend, bias=bias, causal=causal)
            return merge_heads(fused_BHTK), None
        if causal:
            may_attend = q_BTD.new_ones(q_BTD.shape[1], k_BSD.shape[1], dtype=torch.bool).tril()
        kept: list[Tensor] = []  # torch hands out the weights that dropout left; `attend` those before it

        def drop(weights_BHTS: Tensor) -> Tensor:
            kept.append(F.dropout(weights_BHTS, self.dropout, self.training))
            return kept[0]

        attended_BHTK, _ = attend(q_BHTK, k_BHSK, v_BHSK, may_attend, bias=bias, dropout=drop)
        return merge_heads(attended_BHTK), kept[0] if need_weights else None
