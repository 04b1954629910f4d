"""Decoded accuracy: held-out problems decoded through the engine, exact match of the answer, a
number a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from transformers import PreTrainedTokenizerBase

from entropycache.config import GenerationConfig
from entropycache.engine import Engine
from entropycache.models import llada
from entropycache.models.transformer import LayerWeights, Transformer
from entropycache.problems import HeldOut
from entropycache.text import Text

PLAIN = GenerationConfig(policy="none", block_length=32, tokens_per_step=1)
"""Plain decoding: one token a step, no cache. Early stop changes its cost alone, never its text."""


def engine_of(network: Transformer, tokenizer: PreTrainedTokenizerBase) -> Engine:
    """An engine over a bfloat16 copy of a network in training: what will be shipped is what is
    judged.
    """
    with torch.no_grad():
        layers = [
            LayerWeights(
                attn_norm=layer.attn_norm.bfloat16(),
                qkv=[w.bfloat16() for w in layer.qkv.weights],
                qkv_bias=[b.bfloat16() for b in layer.qkv.biases],
                out=layer.out.bfloat16(),
                mlp_norm=layer.mlp_norm.bfloat16(),
                gate_up=[w.bfloat16() for w in layer.gate_up.weights],
                down=layer.down.bfloat16(),
            )
            for layer in network.typed_layers()
        ]
        copy = Transformer(
            network.shape,
            network.embedding.bfloat16(),
            layers,
            network.norm.bfloat16(),
            network.head.bfloat16(),
        ).requires_grad_(False)
    mask_id, end_id = int(tokenizer.mask_token_id), int(tokenizer.eos_token_id)
    text = Text(tokenizer, mask_id, frozenset({end_id}), network.shape.vocab_size)
    return Engine(copy, llada.LLADA, text)


def accuracy(
    engine: Engine,
    problems: Sequence[HeldOut],
    config: GenerationConfig = PLAIN,
    shots: Iterable[HeldOut] = (),
) -> float:
    """Share of problems solved; ``shots`` are worked examples put in front of each as earlier
    turns.
    """
    front = [
        m for shot in shots for m in (*shot.chat, {"role": "assistant", "content": shot.response})
    ]
    prompts = [front + problem.chat for problem in problems]
    done = engine.generate(prompts, config, batch_size=16)
    assert isinstance(done, list)
    return sum(p.solved_by(c.text) for p, c in zip(problems, done, strict=True)) / len(problems)
