"""The store: slots of their own, and nothing of a slot left once it is closed."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from entropycache import GenerationConfig
from entropycache.engine.kv_store import KVStore
from entropycache.policies import POLICIES

EXTRAS = {"queries": (4, 2), "inputs": (8,)}


def store() -> KVStore:
    """Two layers of three heads of width 2."""
    return KVStore((2, 3, 2), EXTRAS, torch.float32, torch.device("cpu"))


def test_closing_a_slot_lets_go_of_its_keys_and_values_and_of_all_it_kept():
    kept = store()
    slot = kept.open(5, ("queries", "inputs"))
    tensors = [kept.slot(slot)]
    for name, size in EXTRAS.items():
        tensors.append(kept.kept(name, 0, slot)._base)
        assert tensors[-1].shape == (2, 5, *size)
    gone = [weakref.ref(tensor) for tensor in tensors]
    del tensors
    kept.close(slot)
    gc.collect()
    assert [tensor() for tensor in gone] == [None] * 3
    with pytest.raises(KeyError):
        kept.kept("inputs", 0, slot)


def test_a_slot_is_never_another_ones_whoever_was_closed_before():
    kept = store()
    first, second = kept.open(4, ("inputs",)), kept.open(4, ("inputs",))
    kept.kept("inputs", 1, second).fill_(7)
    kept.slot(second).fill_(7)
    kept.close(first)
    third = kept.open(4, ("inputs",))
    kept.kept("inputs", 1, third).fill_(1)
    kept.slot(third).fill_(1)
    assert len(kept) == 2
    assert kept.kept("inputs", 1, second).eq(7).all() and kept.slot(second).eq(7).all()


def test_each_layer_keeps_its_own():
    kept = store()
    slot = kept.open(3, ("inputs",))
    for layer in (0, 1):
        kept.kept("inputs", layer, slot).fill_(layer)
    assert [kept.kept("inputs", layer, slot).unique().tolist() for layer in (0, 1)] == [[0], [1]]


KEPT = {
    **{"d2": set(), "dkv-decode": set(), "dkv-greedy": set(), "entropy": set(), "none": set()},
    **{"fast-dual": set(), "fast-prefix": set()},
    "dllm": {"attention", "mlp"},
    "elastic": {"inputs", "queries"},
}
"""Everything that costs memory beside keys and values, by policy."""


@pytest.mark.parametrize("policy", POLICIES)
def test_a_slot_keeps_what_its_policy_asks_for_and_nothing_else(engines, policy):
    engine = engines("llada")
    config = GenerationConfig(policy=policy, order="random", tokens_per_step=1, gen_length=4)
    request = engine.request(0, [1], config)
    engine.runner.open(request)
    try:
        assert set(engine.runner.store._kept[request.slot]) == KEPT[policy]
    finally:
        engine.runner.close(request)
