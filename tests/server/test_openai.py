"""The official client against the server: whole and streamed answers agree, whatever is asked."""

from __future__ import annotations

import openai
import pytest

from entropycache import GenerationConfig, load
from entropycache.io.problems import held_out
from tests.server.tools import serving

QUESTION = held_out("aiw")[0].chat
DEFAULTS = GenerationConfig(gen_length=40)


@pytest.fixture(scope="module")
def server():
    with serving(load("tiny", dtype="float32", device="cpu"), defaults=DEFAULTS) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def alone():
    """The same model, without a server."""
    return load("tiny", dtype="float32", device="cpu")


def chat(client, **options):
    return client.chat.completions.create(model="small", messages=QUESTION, **options)


def streamed_chat(client, **options) -> tuple[str, str, list]:
    """Text, finish reason and chunks of a streamed chat of one choice."""
    chunks = list(chat(client, stream=True, **options))
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    assert deltas[0].role == "assistant" and not deltas[-1].content
    assert [d.role for d in deltas[1:]] == [None] * (len(deltas) - 1)
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    return "".join(d.content or "" for d in deltas), reasons[-1], chunks


def test_a_chat_is_answered_as_the_engine_answers_it(client, alone):
    expected = alone.generate(QUESTION, DEFAULTS)
    found = chat(client)
    choice = found.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", expected.text)
    assert (choice.index, choice.finish_reason) == (0, expected.finish_reason)
    assert found.usage.prompt_tokens == expected.prompt_tokens
    assert found.usage.completion_tokens == expected.answer_tokens
    assert found.usage.total_tokens == expected.prompt_tokens + expected.answer_tokens
    assert found.object == "chat.completion" and found.id.startswith("chatcmpl-")
    assert found.created and found.system_fingerprint and found.model == "small"


def test_a_stream_comes_in_pieces_that_make_the_whole(client):
    own = {"extra_body": {"tokens_per_step": 1, "window": 1}}
    whole = chat(client, **own)
    text, reason, chunks = streamed_chat(client, **own)
    choice = whole.choices[0]
    assert (text, reason) == (choice.message.content, choice.finish_reason)
    assert len(chunks) == whole.usage.completion_tokens + 2  # a token each, the role, the reason
    assert len({(c.id, c.created, c.model, c.system_fingerprint) for c in chunks}) == 1
    assert {c.object for c in chunks} == {"chat.completion.chunk"}
    assert all(c.usage is None for c in chunks)


def test_usage_comes_last_where_it_was_asked_for(client):
    *rest, last = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert last.choices == [] and all(c.usage is None for c in rest)
    assert last.usage == chat(client).usage


def test_stops_at_every_offset_never_leak(client):
    whole = chat(client).choices[0].message.content
    assert len(whole) > 8
    for i in range(len(whole) - 1):
        stop = [whole[i : i + 2], "never there"]
        found = chat(client, stop=stop).choices[0]
        assert found.message.content == whole[: whole.index(stop[0])]
        assert found.finish_reason == "stop"
        assert streamed_chat(client, stop=stop)[:2] == (found.message.content, "stop")


def test_choices_are_equal_at_temperature_0_and_have_seeds_of_their_own_above(client):
    for choice in (found := chat(client, n=3)).choices:
        assert choice.message.content == found.choices[0].message.content
    options = {"temperature": 4.0, "extra_body": {"gen_length": 12}}
    several = [c.message.content for c in chat(client, n=3, seed=7, **options).choices]
    assert len(set(several)) == 3
    for i in range(3):
        assert chat(client, seed=7 + i, **options).choices[0].message.content == several[i]
    drawn = {chat(client, **options).choices[0].message.content for _ in range(3)}
    assert len(drawn) > 1


def test_streamed_choices_are_told_apart(client):
    options = {"n": 3, "temperature": 4.0, "seed": 3, "extra_body": {"gen_length": 12}}
    texts = ["", "", ""]
    for chunk in chat(client, stream=True, **options):
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
    assert texts == [c.message.content for c in chat(client, **options).choices]


def test_max_tokens_cuts_the_answer_and_both_names_mean_it(client):
    whole = chat(client)
    for name in ("max_tokens", "max_completion_tokens"):
        cut = chat(client, **{name: 3})
        assert cut.usage.completion_tokens == 3
        assert cut.choices[0].finish_reason == "length"
        assert whole.choices[0].message.content.startswith(cut.choices[0].message.content)
    assert chat(client, max_tokens=60).usage.completion_tokens <= 60


def test_logprobs_of_the_tokens_of_the_answer(client, alone):
    found = chat(client, logprobs=True, top_logprobs=3).choices[0]
    tokens = found.logprobs.content
    assert "".join(t.token for t in tokens) == found.message.content
    for token in tokens:
        assert bytes(token.bytes).decode() == token.token
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        values = [t.logprob for t in token.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert token.top_logprobs[0].token == token.token  # greedy
        assert token.logprob == pytest.approx(values[0])
    pieces = list(chat(client, logprobs=True, top_logprobs=3, stream=True))
    told = [c.choices[0].logprobs for c in pieces if c.choices[0].logprobs]
    assert [t.token for part in told for t in part.content] == [t.token for t in tokens]
    bare = chat(client, logprobs=True).choices[0].logprobs.content
    assert [t.top_logprobs for t in bare] == [[]] * len(tokens)
    assert chat(client).choices[0].logprobs is None


def test_a_logprob_is_that_of_the_step_that_committed_the_token(client, alone):
    prompt = alone.tokenizer.encode("1 + 1 =").tolist()
    own = {"gen_length": 4, "tokens_per_step": 4}  # all in the first pass, which is that of logits
    found = client.completions.create(
        model="small", prompt=prompt, logprobs=2, max_tokens=1, extra_body=own
    )
    logits = alone.logits([*prompt, *[alone.tokenizer.mask_id] * 4])[len(prompt)].double()
    logits[alone.tokenizer.mask_id] = float("-inf")
    expected = logits.log_softmax(0)
    logprobs = found.choices[0].logprobs
    assert logprobs.token_logprobs[0] == pytest.approx(float(expected.max()), abs=1e-5)
    assert logprobs.top_logprobs[0][logprobs.tokens[0]] == logprobs.token_logprobs[0]
    assert len(logprobs.top_logprobs[0]) == 2 and logprobs.text_offset == [0]


def test_completions_take_text_ids_and_lists_of_either(client, alone):
    texts = ["1 + 1 =", "2 * 3 ="]
    ids = [alone.tokenizer.encode(t).tolist() for t in texts]
    expected = [alone.generate(t, DEFAULTS).text for t in texts]

    def answers(prompt, **options):
        found = client.completions.create(model="small", prompt=prompt, **options)
        assert found.object == "text_completion" and found.id.startswith("cmpl-")
        assert [c.index for c in found.choices] == list(range(len(found.choices)))
        return [c.text for c in found.choices]

    assert answers(texts[0]) == answers(ids[0]) == expected[:1]
    assert answers(texts) == answers(ids) == expected
    assert answers(texts, n=2) == [expected[0]] * 2 + [expected[1]] * 2
    for prompt in ([], ""):
        assert answers(prompt, max_tokens=4, extra_body={"gen_length": 8})


def test_many_prompts_are_streamed_and_counted(client):
    texts = ["1 + 1 =", "2 * 3 ="]
    options = {"model": "small", "prompt": texts, "n": 2}
    whole = client.completions.create(**options)
    found = [""] * 4
    chunks = list(
        client.completions.create(**options, stream=True, stream_options={"include_usage": True})
    )
    for chunk in chunks[:-1]:
        found[chunk.choices[0].index] += chunk.choices[0].text
    assert found == [c.text for c in whole.choices]
    assert chunks[-1].usage == whole.usage
    one = client.completions.create(model="small", prompt=texts[0]).usage.prompt_tokens
    two = client.completions.create(model="small", prompt=texts[1]).usage.prompt_tokens
    assert whole.usage.prompt_tokens == one + two


def test_a_suffix_is_completed_to_from_both_sides(client, alone):
    options = {"model": "small", "prompt": "12 + 30 =", "suffix": "\n#### 42", "max_tokens": 6}
    whole = client.completions.create(**options, logprobs=0)
    masks = alone.tokenizer.mask_text * 6
    filled = alone.infill(f"12 + 30 ={masks}\n#### 42")
    assert filled.text == f"12 + 30 ={whole.choices[0].text}\n#### 42"
    assert whole.usage.completion_tokens == 6 == len(whole.choices[0].logprobs.tokens)
    parts = client.completions.create(**options, stream=True)
    assert "".join(c.choices[0].text for c in parts) == whole.choices[0].text


def test_the_engines_own_options_go_through_extra_body(client, alone):
    for own in (
        {"policy": "entropy:tau=0.2,k=8", "window": 16, "threshold": 0.7},
        {"policy": "none", "block_length": 10, "steps": 8, "gen_length": 40},
        {"policy": "fast-dual", "block_length": 20, "factor": 0.6},
        {"policy": "dkv-greedy", "order": "random", "tokens_per_step": 2, "seed": 5},
        {"eb_gamma": 0.4},
        {"alg": "entropy", "steps": 12},
        {"sigma": 5.0, "tokens_per_step": 3, "early_stop": False},
    ):
        expected = alone.generate(QUESTION, DEFAULTS, **own)
        assert chat(client, extra_body=own).choices[0].message.content == expected.text
    short = chat(client, extra_body={"diffusion_max_steps": 2, "tokens_per_step": 1, "window": 1})
    assert (short.usage.completion_tokens, short.choices[0].finish_reason) == (2, "length")


def test_a_message_may_be_in_parts_and_may_be_an_answer_handed_back(client):
    question = QUESTION[0]["content"]
    parts = [{"type": "text", "text": question[:9]}, {"type": "text", "text": question[9:]}]
    found = client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": parts}]
    )
    assert found.choices[0].message.content == chat(client).choices[0].message.content
    back = found.choices[0].message.model_dump()
    messages = [*QUESTION, back, {"role": "user", "content": "Why?"}]
    assert client.chat.completions.create(model="small", messages=messages, max_tokens=2).choices


def test_models_are_listed_and_found(client):
    assert [m.id for m in client.models.list()] == ["small"]
    assert client.models.retrieve("small").owned_by == "entropycache"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("other/model")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="other", prompt="x")
    assert caught.value.param == "model"


def test_the_server_is_as_it_was_before(server):
    server.settle()
    assert server.slots == 0
