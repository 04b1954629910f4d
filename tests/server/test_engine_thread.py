"""What serving asks of the engine: requests that leave a running loop, a queue with a limit of
positions, text that only grows, log-probabilities, masks before a suffix.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from entropycache import GenerationConfig
from entropycache.config.sampling import Sampling
from entropycache.core.sequence import Sequence as Canvas
from entropycache.core.steps import Commit
from entropycache.engine.loop import cancel, decode
from entropycache.engine.scheduler import Scheduler
from entropycache.engine.scoring import Sampler, score
from entropycache.engine.stopping import StopCriteria
from entropycache.errors import PromptError
from entropycache.io.tokenizer import Tokenizer

CONFIG = GenerationConfig(policy="none", tokens_per_step=1, window=4, gen_length=8)


def test_a_cancelled_request_makes_no_further_step_and_frees_its_slot(engines):
    engine = engines("llada")
    alone = engine.generate([4, 5], CONFIG)
    requests = [engine.request(i, [4, 5], CONFIG) for i in range(3)]
    last, cancelled = requests[2], requests[1]
    seen = []
    for step in decode(requests, engine.runner):
        seen.append(step.request)
        if len(seen) == 4:  # in the middle of a pass: the second step of request 1 was computed
            cancel(cancelled, engine.runner)
            assert len(engine.runner.store) == 2
            requests.remove(cancelled)
    assert (seen.count(0), seen.count(1), seen.count(2)) == (8, 1, 8)
    assert last.complete().token_ids == alone.token_ids
    assert len(engine.runner.store) == 0


def test_all_requests_may_be_cancelled(engines):
    engine = engines("llada")
    request = engine.request(0, [4, 5], CONFIG)
    assert len([cancel(request, engine.runner) for _ in decode([request], engine.runner)]) == 1
    assert len(engine.runner.store) == 0


def test_the_scheduler_lets_in_what_fits_in_order(engines):
    engine = engines("llada")
    config = GenerationConfig(gen_length=10)
    requests = [engine.request(i, [1] * n, config) for i, n in enumerate((10, 30, 5, 5))]
    scheduler = Scheduler(engine.runner, size=3, positions=50, requests=requests[:3])
    assert scheduler.admit()
    assert scheduler.running == requests[:1]  # 20 positions; the next needs 40, and goes first
    assert scheduler.waiting == 2
    scheduler.cancel(requests[1])
    scheduler.add(requests[3])
    scheduler.admit()
    assert scheduler.running == [requests[0], requests[2], requests[3]]
    requests[0].sequence.done = True
    assert list(scheduler.retire()) == requests[:1]
    scheduler.cancel(requests[0])  # long gone: nothing happens
    scheduler.cancel(requests[3])
    assert scheduler.running == [requests[2]]


def test_a_gap_before_a_suffix_is_filled_whole_and_nothing_else_changes(engines):
    engine = engines("llada")
    config = CONFIG.merge(gen_length=6)
    request = engine.request(0, [4, 5], config, suffix=[7, 8, 9])
    assert len(list(decode([request], engine.runner))) == 6
    canvas = request.sequence.canvas.tolist()
    assert (canvas[:2], canvas[8:]) == ([4, 5], [7, 8, 9])
    assert engine.tokenizer.mask_id not in canvas
    done = request.complete()
    assert (done.answer_tokens, done.prompt_tokens) == (6, 5)  # a suffix is given, too
    with pytest.raises(PromptError, match="make 1000000000006 positions"):
        engine.request(0, [4], GenerationConfig(gen_length=10**12), suffix=[7] * 5)


def test_a_suffix_may_not_hold_a_mask(tiny):
    assert tiny.tokenizer.decode(tiny.tokenizer.encode_rest(" = 42")) == " = 42"
    with pytest.raises(PromptError, match="mask token"):
        tiny.tokenizer.encode_rest("a<|mdm_mask|>")


def test_ids_are_spelt_with_their_special_tokens(tiny):
    chat = tiny.tokenizer.encode([{"role": "user", "content": "x"}]).tolist()
    assert tiny.tokenizer.encode(tiny.tokenizer.spell(chat)).tolist() == chat
    with pytest.raises(PromptError, match="outside the vocabulary"):
        tiny.tokenizer.spell([10**9])


class Bytes:
    """A tokenizer of single bytes, of which several make a character."""

    def convert_ids_to_tokens(self, token_id):
        return str(token_id)

    def decode(self, ids, skip_special_tokens=True):
        return bytes(ids).decode(errors="replace")


WORDS = st.text("ab€é\ufffd𝄞", min_size=1, max_size=8)


@given(
    WORDS,
    st.lists(st.text("ab€é𝄞", min_size=1, max_size=3), max_size=3),
    st.integers(1, 5),
    st.one_of(st.none(), st.integers(1, 12)),
    st.one_of(st.none(), st.integers(0, 12)),
    st.binary(max_size=2),
    st.randoms(use_true_random=False),
)
def test_settled_text_only_grows_and_the_whole_begins_with_it(
    word, stop, stride, limit, end, broken, order
):
    """Whatever the text, the stops, and the order in which tokens are committed."""
    data = [*word.encode(), *(b | 0x80 for b in broken)]
    if end is not None:
        data.insert(min(end, len(data)), 1)
    text = Tokenizer(Bytes(), 300, frozenset({1}), 301)
    ending = StopCriteria(text, tuple(stop), limit)
    canvas = Canvas(np.full(len(data), 300), 300, 0)
    places = list(range(len(data)))
    order.shuffle(places)
    told = [ending.settled(canvas)]
    for i in range(0, len(places), stride):
        chosen = np.array(sorted(places[i : i + stride]))
        canvas.apply(Commit(chosen, np.array(data)[chosen], chosen))
        told.append(ending.settled(canvas))
    final = ending.finish(canvas)[0]
    for before, after in zip(told, [*told[1:], final], strict=True):
        assert after.startswith(before)
    assert told[-1] == final
    assert not any(s in piece for piece in told for s in stop)


@pytest.mark.parametrize("top", [0, 3])
@pytest.mark.parametrize("chunked", [False, True])
def test_logprobs_are_those_of_the_distribution_at_temperature_1(monkeypatch, top, chunked):
    if chunked:
        monkeypatch.setattr("entropycache.engine.scoring.CHUNK_ENTRIES", 24)
    logits = torch.randn(7, 12, generator=torch.Generator().manual_seed(1)) * 3
    samplers = [
        Sampler(Sampling()),
        Sampler(Sampling(temperature=2.0, seed=4), top),
        Sampler(Sampling(), top),
    ]
    scores, _ = score(lambda rows: rows.clone(), logits, [2, 3, 2], samplers, 0, 12)
    without = logits.clone()
    without[:, 0] = float("-inf")
    expected = without.double().log_softmax(-1).numpy()
    assert scores[0].logprobs is None
    for found, first in ((scores[1], 2), (scores[2], 5)):
        rows = np.arange(first, first + len(found.tokens))
        np.testing.assert_allclose(found.logprobs.own, expected[rows, found.tokens], atol=1e-5)
        assert found.logprobs.tokens.shape == found.logprobs.values.shape == (len(rows), top)
        best = np.argsort(-expected[rows], axis=1)[:, :top]
        assert (found.logprobs.tokens == best).all()
        np.testing.assert_allclose(
            found.logprobs.values, np.take_along_axis(expected[rows], best, 1), atol=1e-5
        )
    plain, _ = score(lambda rows: rows.clone(), logits, [7], [Sampler(Sampling())], 0, 12)
    assert (plain[0].tokens[5:] == scores[2].tokens).all(), "asking changes nothing"
