"""The bidirectional transformer that every supported family shares, over a flat list of rows.

A row is one position of one sequence. The linear layers see all rows at once; attention is a
function given from outside, so the network knows neither sequences, nor the K/V store, nor which
rows of a canvas it is computing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from entropycache.models.config import ModelConfig
from entropycache.models.rope import inverse_frequencies

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""``attend(layer, q, k, v)`` returns the mixed values of each row, ``(rows, heads, head_dim)``.

q is ``(rows, heads, head_dim)``; k and v are ``(rows, kv_heads, head_dim)``. The rotary embedding
is applied to q and k already.
"""
Arrange = Callable[[int, Tensor], tuple[Tensor, Tensor | None]]
"""``arrange(layer, x)`` returns the input ``(rows, width)`` of a layer, before each layer.

Its second result is the positions ``(rows,)`` if the rows changed, else ``None``.
"""
Wanted = Callable[[], Tensor]
"""Returns the indices ``(n,)`` of the rows that are asked for, once the last layer has attended."""


class Fused(nn.Module):
    """Linear maps of one input, their outputs side by side: ``(rows, in) -> (rows, sum of out)``.

    A checkpoint read from disk is stored as one matrix and takes one matmul. A network adopted from
    a loaded model keeps its separate matrices, so that nothing is copied.
    """

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList(biases)

    def forward(self, x: Tensor) -> Tensor:
        biases = [*self.biases] or [None] * len(self.weights)
        parts = [F.linear(x, w, b) for w, b in zip(self.weights, biases, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class RotaryTable(nn.Module):
    """Cosines and sines of every position, ``(max_position_embeddings, head_dim)``, built once.

    The embedding rotates halves, as both published families do. The sines of the first half of the
    output are negated.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        precise = torch.float64 if dtype == torch.float64 else torch.float32
        like = torch.empty(0, dtype=precise, device=device)
        scaling = config.rope_scaling
        frequencies = inverse_frequencies(config.head_dim, config.rope_theta, scaling, like)
        positions = torch.arange(config.max_position_embeddings, dtype=precise, device=device)
        angles = torch.outer(positions, frequencies)
        kept = precise if config.rope_in_float32 else dtype
        scale = 1.0 if scaling is None else scaling.table_scale
        cos, sin = angles.cos() * scale, angles.sin() * scale
        self.register_buffer("cos", torch.cat((cos, cos), dim=1).to(kept), persistent=False)
        self.register_buffer("sin", torch.cat((-sin, sin), dim=1).to(kept), persistent=False)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines ``(rows, 1, head_dim)`` of ``positions`` ``(rows,)``."""
        return self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding to ``(rows, heads, head_dim)``, in the table's precision."""
    first, second = x.to(cos.dtype).chunk(2, dim=-1)
    swapped = torch.cat((second, first), dim=-1)
    return torch.addcmul(swapped * sin, x.to(cos.dtype), cos).to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm of ``x`` ``(rows, width)``, in its shape.

    It is computed in float32 or wider, cast back, and then scaled by ``weight`` ``(width,)``: both
    families' order of operations.
    """
    # A norm with a dtype of its own needs no copy of x in float32, as a mean of squares would.
    precise = torch.promote_types(x.dtype, torch.float32)
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=precise)
    scale = torch.rsqrt(norm * norm / x.shape[-1] + eps)
    return weight * (x * scale).to(x.dtype)


@dataclass(frozen=True)
class LayerWeights:
    """One layer's tensors; ``qkv`` and ``gate_up`` are one fused matrix or its parts in order."""

    attn_norm: Tensor
    qkv: Sequence[Tensor]
    qkv_bias: Sequence[Tensor]
    out: Tensor
    mlp_norm: Tensor
    gate_up: Sequence[Tensor]
    down: Tensor


class Layer(nn.Module):
    """Pre-norm attention and SwiGLU, on ``(rows, width)``."""

    def __init__(self, config: ModelConfig, weights: LayerWeights) -> None:
        super().__init__()
        self.config = config
        self.attn_norm = nn.Parameter(weights.attn_norm)
        self.qkv = Fused(weights.qkv, weights.qkv_bias)
        self.out = nn.Parameter(weights.out)
        self.mlp_norm = nn.Parameter(weights.mlp_norm)
        self.gate_up = Fused(weights.gate_up)
        self.down = nn.Parameter(weights.down)

    def forward(
        self,
        x: Tensor,
        rotary: tuple[Tensor, Tensor],
        attend: Attend,
        index: int,
        wanted: Wanted | None = None,
    ) -> Tensor:
        mixed = attend(index, *self.project(x, rotary))
        if wanted is not None:
            # Keys and values of all rows are stored by now, and no layer follows: the rest is
            # computed for predicted rows alone. Asked only here, as the rows may change on the way.
            rows = wanted()
            x, mixed = x[rows], mixed[rows]
        x = x + self.attended(mixed)
        return x + self.mlp(x)

    def project(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of ``x`` ``(rows, width)``, shaped as ``Attend`` takes them."""
        heads, kv_heads = self.config.num_attention_heads, self.config.num_key_value_heads
        qkv = self.qkv(rms_norm(x, self.attn_norm, self.config.rms_norm_eps))
        qkv = qkv.view(len(x), heads + 2 * kv_heads, self.config.head_dim)
        # Positions never move, so that keys are rotated once and stored that way. One call rotates
        # queries and keys, which lie side by side.
        turned = rotate(qkv[:, : heads + kv_heads], *rotary)
        return turned[:, :heads], turned[:, heads:], qkv[:, heads + kv_heads :]

    def values(self, x: Tensor) -> Tensor:
        """Values alone of ``x`` ``(rows, width)``: ``(rows, kv_heads, head_dim)``."""
        size = self.config.key_size
        bias = self.qkv.biases[-1][-size:] if len(self.qkv.biases) else None
        normed = rms_norm(x, self.attn_norm, self.config.rms_norm_eps)
        values = F.linear(normed, self.qkv.weights[-1][-size:], bias)
        return values.view(len(x), self.config.num_key_value_heads, self.config.head_dim)

    def attended(self, mixed: Tensor) -> Tensor:
        """The summand of attention, ``(rows, width)``, from mixed values as ``Attend`` returns."""
        return F.linear(mixed.reshape(len(mixed), self.out.shape[1]), self.out)

    def mlp(self, x: Tensor) -> Tensor:
        """The summand of the feed-forward layer for ``x``, both ``(rows, width)``."""
        normed = rms_norm(x, self.mlp_norm, self.config.rms_norm_eps)
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down)


class Transformer(nn.Module):
    """Embedding, layers, final norm and output head."""

    def __init__(
        self,
        config: ModelConfig,
        embedding: Tensor,
        layers: Sequence[LayerWeights],
        norm: Tensor,
        head: Tensor,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(embedding)
        self.layers = nn.ModuleList(Layer(config, weights) for weights in layers)
        self.norm = nn.Parameter(norm)
        self.head = self.embedding if config.tie_word_embeddings else nn.Parameter(head)
        self.rotary = RotaryTable(config, embedding.dtype, embedding.device)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        attend: Attend,
        arrange: Arrange | None = None,
        wanted: Wanted | None = None,
    ) -> Tensor:
        """Hidden states ``(rows, width)`` after the last norm, or ``(n, width)`` with ``wanted``.

        ``ids`` and ``positions`` are both ``(rows,)``. With ``wanted`` the last layer computes the
        feed-forward part of the wanted rows alone.
        """
        last = len(self.layers) - 1
        x = F.embedding(ids, self.embedding)
        rotary = self.rotary.at(positions)
        for index, layer in enumerate(self.layers):
            if arrange is not None:
                x, moved = arrange(index, x)
                rotary = rotary if moved is None else self.rotary.at(moved)
            x = layer(x, rotary, attend, index, wanted if index == last else None)
        return rms_norm(x, self.norm, self.config.rms_norm_eps)

    @property
    def parameter_count(self) -> int:
        """The number of the network's parameters."""
        return sum(p.numel() for p in self.parameters())

    def typed_layers(self) -> Iterator[Layer]:
        """Yield the layers with their type, which ``nn.ModuleList`` does not declare."""
        for layer in self.layers:
            assert isinstance(layer, Layer)
            yield layer

    def logits(self, hidden: Tensor) -> Tensor:
        """The output head: ``(rows, width) -> (rows, vocab_size)``."""
        return F.linear(hidden, self.head)
