"""The public engine: prompts in, completions out, endings, errors, adoption of loaded models."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

import entropycache
from entropycache import Engine, EntropyCacheError, GenerationConfig, load
from entropycache.core.sequence import Sequence as Canvas
from entropycache.core.steps import Commit
from entropycache.engine.stopping import StopCriteria
from entropycache.errors import CheckpointError, NonFiniteLogitsError, OptionError, PromptError
from entropycache.io.problems import held_out
from entropycache.io.tokenizer import Tokenizer
from tests.conftest import DATA, FAMILIES

PLAIN = GenerationConfig(policy="none", tokens_per_step=1, block_length=8, gen_length=16)


def test_public_names_are_these():
    assert entropycache.__all__ == [
        "Completion",
        "Confidence",
        "Engine",
        "EntropyCacheError",
        "Frame",
        "GenerationConfig",
        "load",
    ]
    assert all(hasattr(entropycache, name) for name in entropycache.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        entropycache.nothing  # noqa: B018


def test_one_prompt_gives_a_completion_and_a_list_gives_a_list(engines):
    engine = engines("llada")
    one = engine.generate([1, 2, 3], PLAIN)
    many = engine.generate([[1, 2, 3], [4]], PLAIN)
    assert [type(one).__name__, len(many)] == ["Completion", 2]
    assert many[0].token_ids == one.token_ids
    assert len(one.token_ids) == 16
    assert one.forwards == one.full_passes == 16
    assert one.rows_computed == 16 * 19
    assert one.answer_tokens / one.seconds == pytest.approx(one.tokens_per_second)


def test_an_empty_prompt_is_a_canvas_of_masks(engines):
    for family in FAMILIES:
        done = engines(family).generate([], PLAIN)
        assert done.prompt_tokens == 0
        assert sorted(sum(done.commits, [])) == list(range(16))


def test_a_text_prompt_and_a_chat_go_through_the_tokenizer(tiny):
    ids = tiny.tokenizer.encode("1 + 1 =")
    assert tiny.tokenizer.decode(ids) == "1 + 1 ="
    chat = tiny.tokenizer.encode([{"role": "user", "content": "1 + 1 ="}])
    assert len(chat) > len(ids)
    text = tiny.tokenizer.backend.decode(chat.tolist())
    assert text.endswith("<|start_header_id|>assistant<|end_header_id|>\n\n")
    assert len(tiny.tokenizer.encode("")) == 0


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("a <|mdm_mask|> b", r"contains the mask token <\|mdm_mask\|>"),
        ([1, 2, 10**6], "token id 1000000 is outside the vocabulary"),
        ([1, -2], "token id -2 is outside"),
        ([{"role": "user"}], "needs role and content"),
        ([1, "a"], "a prompt is text, a list of token ids, or a list of messages"),
        ({"role": "user", "content": "x"}, "list of messages with role and content, not dict"),
        (5, "not int"),
        (None, "not NoneType"),
        ([10**30], "outside the vocabulary"),
        ([True, False], "whole numbers"),
        ("a \ud800 b", "not text that can be encoded"),
        ([300] * 5000, "this model has 4096"),
    ],
)
def test_a_prompt_that_cannot_be_decoded_says_why(tiny, prompt, said):
    with pytest.raises(PromptError, match=said):
        tiny.generate(prompt)


def test_the_mask_token_in_a_chat_is_found_too(tiny):
    with pytest.raises(PromptError, match="mask token"):
        tiny.generate([{"role": "user", "content": "fill <|mdm_mask|>"}])


def test_text_needs_a_tokenizer(engines):
    with pytest.raises(PromptError, match="no tokenizer; give the prompt as token ids"):
        engines("llada").generate("text")
    with pytest.raises(OptionError, match="stop strings need a tokenizer"):
        engines("llada").generate([1], stop="x")


def test_wrong_settings_stop_before_anything_is_decoded(engines):
    with pytest.raises(OptionError, match="unknown option 'treshold'; known: policy, gen_length"):
        engines("llada").generate([1], treshold=0.9)
    with pytest.raises(OptionError, match="batch_size must be 1 or more"):
        engines("llada").generate([[1], [2]], batch_size=0)
    with pytest.raises(OptionError, match="batch_size must be 1 or more"):
        engines("llada").generate([1], batch_size=0)


@pytest.mark.parametrize("ids", [[], [1] * 600, [1.7, 2.2], [-1]])
def test_logits_of_what_is_not_a_canvas_are_refused(engines, ids):
    with pytest.raises(PromptError):
        engines("llada").logits(ids)


def test_logits_can_be_worked_on(engines):
    logits = engines("llada").logits([1, 158, 3])
    logits[:, 0] = 0.0
    assert not logits.requires_grad


def test_a_chat_that_the_template_refuses_says_so(tiny, monkeypatch):
    monkeypatch.setattr(tiny.tokenizer.backend, "chat_template", "{{ raise_exception('no') }}")
    with pytest.raises(PromptError, match="template refuses this chat: no"):
        tiny.generate([{"role": "user", "content": "x"}])


@pytest.mark.parametrize("policy", ["none", "entropy:tau=0.5"])
def test_early_stop_gives_the_same_text_with_fewer_passes(tiny, policy):
    prompts = [problem.chat for problem in held_out("aiw")[:2]]
    options = {"policy": policy, "gen_length": 48, "block_length": 16, "tokens_per_step": 1}
    for prompt in prompts:
        short = tiny.generate(prompt, early_stop=True, **options)
        whole = tiny.generate(prompt, early_stop=False, **options)
        assert short.text == whole.text
        assert short.finish_reason == whole.finish_reason
        assert len(short.commits) < len(whole.commits)
        # The same steps up to the first end token; from then on nothing behind it.
        ended = [
            [short.token_ids[p] in tiny.tokenizer.end_ids for p in step] for step in short.commits
        ]
        first = next(i for i, ends in enumerate(ended) if any(ends))
        assert short.commits[: first + 1] == whole.commits[: first + 1]
        end = min(short.commits[first])
        assert all(p < end for step in short.commits[first + 1 :] for p in step)
        assert len(short.token_ids) == len(whole.token_ids) == 48
        assert tiny.tokenizer.mask_id not in short.token_ids


def ending_with(engine: Engine, ids: list[int], stop: int):
    """An engine whose network fills position i of the region with ids[i], most certain first."""
    vocabulary = engine.network.config.vocab_size

    def network(tokens, positions, attend, arrange, wanted):
        x = torch.zeros(len(tokens), 4)
        engine_shape = engine.network.config
        for layer in range(engine_shape.num_hidden_layers):
            shape = (len(tokens), engine_shape.num_attention_heads, engine_shape.head_dim)
            attend(layer, *(torch.zeros(shape),) * 3)
        x[:, 0] = positions
        return x[wanted()]

    def logits(hidden):
        out = torch.zeros(len(hidden), vocabulary)
        for row, position in enumerate(hidden[:, 0].long().tolist()):
            out[row, ids[position - stop]] = 30.0 - 0.1 * (position - stop)
        return out

    return network, logits


@pytest.fixture
def scripted(engines, monkeypatch):
    """``scripted(ids)``: the reference engine with a network that writes ``ids``, left to right."""
    engine = engines("llada")

    def script(ids: list[int], prompt: int = 2) -> Engine:
        network, logits = ending_with(engine, ids, prompt)
        monkeypatch.setattr(type(engine.network), "__call__", staticmethod(network))
        monkeypatch.setattr(engine.network, "logits", logits)
        return engine

    return script


def test_an_end_token_ends_the_answer_once_everything_before_it_is_committed(scripted):
    end = 159
    engine = scripted([1, 2, 3, end, 5, 6, end, 8])
    done = engine.generate([4, 4], gen_length=8, tokens_per_step=1, window=8)
    assert done.token_ids == [1, 2, 3, end, end, end, end, end]
    assert (done.forwards, done.finish_reason, done.answer_tokens) == (4, "stop", 3)
    whole = engine.generate([4, 4], gen_length=8, tokens_per_step=1, window=8, early_stop=False)
    assert whole.token_ids == [1, 2, 3, end, 5, 6, end, 8]
    assert (whole.finish_reason, whole.answer_tokens) == ("stop", 3)


def test_without_an_end_token_the_answer_ends_by_length(scripted):
    engine = scripted([1, 2, 3, 4])
    done = engine.generate([4, 4], gen_length=4, tokens_per_step=1)
    assert (done.finish_reason, done.answer_tokens) == ("length", 4)


def test_max_new_tokens_limits_the_answer_and_not_the_canvas(scripted):
    engine = scripted([1, 2, 3, 4, 5, 6, 7, 8])
    done = engine.generate([4, 4], gen_length=8, tokens_per_step=1, window=8, max_new_tokens=3)
    assert (done.forwards, done.answer_tokens, done.finish_reason) == (3, 3, "length")
    assert len(done.token_ids) == 8


def test_an_answer_of_end_tokens_alone_is_empty_and_stopped(scripted):
    done = scripted([159] * 4).generate([4, 4], gen_length=4, tokens_per_step=1)
    assert (done.answer_tokens, done.finish_reason, done.forwards) == (0, "stop", 1)


def test_stop_strings_cut_the_text_and_end_decoding(tiny):
    prompt = [{"role": "user", "content": "Solve for t: 3*t = 12"}]
    options = {"gen_length": 48, "tokens_per_step": 1, "window": 1, "policy": "none"}
    whole = tiny.generate(prompt, **options)
    assert len(whole.text) > 3
    stop = whole.text[1:3]
    cut = tiny.generate(prompt, stop=[stop, "never there"], **options)
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.forwards < whole.forwards
    late = tiny.generate(prompt, stop=stop, early_stop=False, **options)
    assert late.text == cut.text


class Letters:
    """A tokenizer of letters, as far as endings ask."""

    def convert_ids_to_tokens(self, token_id):
        return str(token_id)

    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(96 + i) for i in ids)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
    st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_stop_strings_give_the_same_text_early_and_late(ids, stop, stride, order):
    """Whatever the strings, however many tokens a step, in whatever order they are committed."""
    text = Tokenizer(Letters(), 0, frozenset({99}), 100)
    places = list(range(len(ids)))
    order.shuffle(places)
    canvas = Canvas(np.zeros(len(ids), np.int64), 0, 0)
    ending, early = StopCriteria(text, tuple(stop)), None
    for i in range(0, len(places), stride):
        chosen = np.array(sorted(places[i : i + stride]))
        canvas.apply(Commit(chosen, np.array(ids)[chosen], chosen))
        if early is None and ending.reached(canvas):
            early = (ending.finish(canvas), ending.answer(canvas).tolist())
    late = (ending.finish(canvas), ending.answer(canvas).tolist())
    assert early in (None, late)
    whole = text.decode(np.array(ids))
    assert (late[0][1] == "stop") == any(s in whole for s in stop) == (early is not None)
    assert not any(s in late[0][0] for s in stop)
    assert text.decode(np.array(late[1], np.int64)) == late[0][0]


def test_a_callback_that_raises_leaves_no_slot_behind(engines):
    def fail(frame):
        raise KeyError("mine")

    engine = engines("llada")
    with pytest.raises(KeyError, match="mine"):
        engine.generate([[1], [2]], PLAIN, on_step=fail)
    assert len(engine.runner.store) == 0


def test_stream_yields_every_canvas(engines):
    engine = engines("llada")
    frames = list(engine.stream([1, 2], PLAIN))
    done = engine.generate([1, 2], PLAIN)
    assert [len(f.canvas) for f in frames] == [18] * 16
    assert frames[-1].canvas[2:].tolist() == done.token_ids
    masked = [(f.canvas == engine.tokenizer.mask_id).sum() for f in frames]
    assert masked == list(range(15, -1, -1))


def test_non_finite_logits_abort_one_request_and_leave_the_others(engines, monkeypatch):
    engine = engines("llada")
    clean = engine.generate([5, 6], PLAIN)
    head, calls = engine.network.logits, []

    def poisoned(hidden):
        logits = head(hidden)
        calls.append(len(hidden))
        if len(calls) == 3:  # the first request's rows come first
            logits[0, 0] = float("nan")
        return logits

    monkeypatch.setattr(engine.network, "logits", poisoned)
    failed, fine = engine.generate([[1, 2, 3], [5, 6]], PLAIN)
    assert failed.finish_reason == "error"
    assert failed.error == "request 0: the network returned NaN or infinite logits at step 2"
    assert len(failed.commits) == 2
    assert fine.token_ids == clean.token_ids and fine.error is None
    calls.clear()
    with pytest.raises(NonFiniteLogitsError, match="at step 2"):
        engine.generate([1, 2, 3], PLAIN)
    calls.clear()
    with pytest.raises(NonFiniteLogitsError, match="at step 2"):
        list(engine.stream([1, 2, 3], PLAIN))
    assert len(engine.runner.store) == 0


def test_a_model_that_prefers_the_mask_token_still_finishes(engines, monkeypatch):
    engine = engines("llada")
    head = engine.network.logits

    def masks(hidden):
        logits = head(hidden)
        logits[:, engine.tokenizer.mask_id] = 1e4
        return logits

    monkeypatch.setattr(engine.network, "logits", masks)
    done = engine.generate([1], PLAIN)
    assert done.forwards == 16
    assert engine.tokenizer.mask_id not in done.token_ids


class Loaded(nn.Module):
    """What a loaded Hugging Face model looks like: a config and a state dict."""

    class config:
        @staticmethod
        def to_dict():
            import json

            return json.loads((DATA / "dream" / "config.json").read_text())

    def __init__(self) -> None:
        super().__init__()
        self.tensors = load_file(DATA / "dream" / "model.safetensors")

    def state_dict(self, *args, **kwargs):
        return self.tensors


def test_a_loaded_model_is_adopted_without_copying_its_weights(engines):
    model = Loaded()
    engine = Engine.from_hf(model)
    assert engine.logits([1, 2, 3]).shape == (3, 160)
    torch.testing.assert_close(
        engine.logits([1, 2, 3]), engines("dream").logits([1, 2, 3]), atol=1e-4, rtol=0
    )
    mine = {p.data_ptr() for p in engine.network.parameters()}
    theirs = {t.data_ptr() for t in model.tensors.values()}
    assert mine == theirs
    assert (
        engine.generate([1, 2], PLAIN).token_ids
        == engines("dream").generate([1, 2], PLAIN).token_ids
    )


def test_an_unknown_model_is_not_adopted():
    model = Loaded()
    model.config = type("C", (), {"to_dict": staticmethod(lambda: {"model_type": "gpt2"})})
    with pytest.raises(CheckpointError, match="unknown architecture 'gpt2'; supported"):
        Engine.from_hf(model)


def test_every_error_is_an_entropycache_error():
    from entropycache import errors

    kinds = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(kinds) >= 6
    assert all(issubclass(kind, EntropyCacheError) for kind in kinds)
    assert all(kind.__name__ in errors.__doc__ for kind in kinds)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_every_dtype_decodes(dtype):
    engine = load(str(DATA / "dream"), dtype=dtype, device="cpu")
    done = engine.generate([1, 2, 3], gen_length=12)
    assert len(done.token_ids) == 12
    assert str(engine.network.embedding.dtype).endswith(dtype)
    del engine
    gc.collect()


def test_completions_stay_the_same_when_requests_join_late(engines):
    """A queue longer than the batch: whoever joins a running batch gets the answer it gets
    alone.
    """
    engine = engines("dream")
    prompts = [list(range(1, n)) for n in (3, 9, 5, 12, 2, 7)]
    config = GenerationConfig(gen_length=20, threshold=0.5, window=8, policy="entropy:tau=0.8")
    together = engine.generate(prompts, config, batch_size=2)
    for prompt, found in zip(prompts, together, strict=True):
        assert found.token_ids == engine.generate(prompt, config).token_ids
    assert np.unique([c.forwards for c in together]).size > 1
