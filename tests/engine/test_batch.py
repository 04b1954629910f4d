"""The rows of a pass, layer by layer, and the slots of a batch whose requests end apart."""

from __future__ import annotations

from entropycache import GenerationConfig
from entropycache.engine.batch import RaggedBatch
from entropycache.engine.loop import decode
from entropycache.policies import NoCache

CONFIG = GenerationConfig(policy="none", gen_length=4, tokens_per_step=1, early_stop=False)


class Widening(NoCache):
    """Asks for all positions after the first layer of every pass."""

    watches = True
    keeps = frozenset({"inputs"})

    def layer(self, layer, rows, weights, before):
        return layer == 0


def test_rows_are_laid_out_anew_only_in_the_layer_after_the_one_that_asked(engines, monkeypatch):
    engine, seen = engines("llada"), []
    arrange = RaggedBatch.arrange

    def noted(self, layer, x):
        hidden, positions = arrange(self, layer, x)
        seen.append((layer, positions is not None))
        return hidden, positions

    monkeypatch.setattr(RaggedBatch, "arrange", noted)
    request = engine.request(0, [1, 2], CONFIG)
    request.policy = Widening()
    steps = list(decode([request], engine.runner))
    layers = range(engine.network.config.num_hidden_layers)
    assert seen == [(layer, layer == 1) for _ in steps for layer in layers]


def test_a_request_that_ends_frees_its_slot_while_others_go_on(engines):
    engine = engines("llada")
    requests = [engine.request(i, [1, 2], CONFIG.merge(gen_length=n)) for i, n in enumerate((2, 5))]
    slots = [len(engine.runner.store) for _ in decode(requests, engine.runner)]
    # Two passes of both, whose first request ends in the second, then three of the other.
    assert slots == [2, 2, 1, 1, 1, 1, 0]


def test_a_request_with_nan_logits_frees_its_slot_while_others_go_on(engines, monkeypatch):
    engine = engines("llada")
    head, passes = engine.network.logits, []

    def poisoned(hidden):
        logits = head(hidden)
        passes.append(len(hidden))
        if len(passes) == 2:  # the first request's rows come first
            logits[0, 0] = float("nan")
        return logits

    monkeypatch.setattr(engine.network, "logits", poisoned)
    requests = [engine.request(i, [1, 2], CONFIG) for i in range(2)]
    slots = [(s.request, len(engine.runner.store)) for s in decode(requests, engine.runner)]
    assert slots == [(0, 2), (1, 2), (1, 1), (1, 1), (1, 0)]
    assert requests[0].slot is None and requests[0].error is not None
