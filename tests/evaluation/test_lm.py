"""The model that lm_eval calls, through its own entry points: answers, settings, likelihoods."""

from __future__ import annotations

from functools import partial

import datasets
import lm_eval
import pytest
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

from entropycache.errors import OptionError, PromptError
from entropycache.evaluation import EntropyCacheLM
from entropycache.evaluation.journal import Journal
from entropycache.evaluation.offline import config as offline_config
from entropycache.evaluation.prompts import Templated, tokens
from entropycache.io.problems import held_out, with_examples

MANAGER = TaskManager(include_defaults=False)
SHORT = {"gen_length": 32, "threshold": 0.7}
QUESTIONS = ["Solve for t: 3*t = 12", "12 + 34 ="]


def documents(**fields):
    """A task's ``custom_dataset`` of one split."""
    rows = [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]
    return lambda **_: {"test": datasets.Dataset.from_list(rows)}


def asking(questions=tuple(QUESTIONS), **more):
    return {
        "task": "asking",
        "custom_dataset": documents(question=list(questions), answer=["4"] * len(questions)),
        "test_split": "test",
        "doc_to_text": "question",
        "doc_to_target": "answer",
        "generation_kwargs": {"until": []},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        **more,
    }


evaluate = partial(
    lm_eval.simple_evaluate, task_manager=MANAGER, bootstrap_iters=0, apply_chat_template=True
)


def texts(results, task="asking"):
    return [sample["resps"][0][0] for sample in results["samples"][task]]


def request(*arguments, kind="generate_until", doc=0, repeats=1):
    return Instance(kind, {}, arguments, 0, metadata=("asking", doc, repeats))


def test_answers_through_lm_eval_are_the_engines_own(tiny):
    lm = EntropyCacheLM(tiny, **SHORT)
    results = evaluate(model=lm, tasks=[asking()])
    alone = [tiny.generate([{"role": "user", "content": q}], **SHORT) for q in QUESTIONS]
    assert texts(results) == [done.text for done in alone]
    assert [a.completion.forwards for a in lm.answers] == [done.forwards for done in alone]
    assert all(answer.wall > 0 and answer.task == "asking" for answer in lm.answers)
    assert results["config"]["decoding"] == SHORT
    plain = evaluate(model=lm, tasks=[asking()], apply_chat_template=False)
    assert texts(plain) == [tiny.generate(q, **SHORT).text for q in QUESTIONS]


@pytest.mark.parametrize(
    "arguments",
    [
        "model=tiny,policy=entropy:tau=0.5;k=16,gen_length=16,tokens_per_step=4",
        {"model": "tiny", "policy": "entropy:tau=0.5,k=16", "gen_length": 16, "tokens_per_step": 4},
    ],
    ids=["string", "dict"],
)
def test_the_model_is_registered_and_takes_arguments(tiny, arguments):
    results = evaluate(
        model="entropycache", model_args=arguments, tasks=[asking()], batch_size="2", device="cpu"
    )
    options = {"policy": "entropy:tau=0.5,k=16", "gen_length": 16, "tokens_per_step": 4}
    assert results["config"]["decoding"] == options
    first = tiny.generate([{"role": "user", "content": QUESTIONS[0]}], **options)
    assert texts(results)[0] == first.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pretrained": "x"}, "unknown option 'pretrained'; known: model, batch_size"),
        ({"max_batch_size": 4}, "unknown option 'max_batch_size'"),
        ({"batch_size": "auto"}, "batch_size must be a whole number above 0, not 'auto'"),
        ({"dtype": "float32"}, "an engine has its dtype and device"),
        ({"mc_num": 0}, "mc_num must be a whole number above 0"),
        ({"threshold": 2}, "threshold must be a probability"),
        ({"policy": "entropy:tau"}, "expected name:key=value"),
    ],
)
def test_wrong_arguments_are_one_sentence(tiny, options, said):
    with pytest.raises(OptionError, match=said) as refused:
        EntropyCacheLM(tiny, **options).generate_until([request("12 + 34 =", {"until": []})])
    assert "\n" not in str(refused.value)


def test_stop_strings_of_a_task_end_its_answers(tiny):
    chat = [{"role": "user", "content": QUESTIONS[0]}]
    whole = tiny.generate(chat, **SHORT).text
    stop = whole[len(whole) // 2 :][:3]
    lm = EntropyCacheLM(tiny, **SHORT)
    results = evaluate(model=lm, tasks=[asking(QUESTIONS[:1], generation_kwargs={"until": [stop]})])
    assert texts(results) == [whole[: whole.index(stop)]]


def test_equal_requests_are_decoded_once_and_repeats_have_seeds_of_their_own(tiny):
    chat = EntropyCacheLM(tiny).apply_chat_template([{"role": "user", "content": QUESTIONS[1]}])
    lm = EntropyCacheLM(tiny, gen_length=16, temperature=8.0, tokens_per_step=2)
    same = [request(chat, {"until": []}, doc=0), request(chat, {"until": []}, doc=1)]
    several = request(chat, {"until": []}, doc=2, repeats=3)
    finished: list[int] = []
    lm.watch = finished.append
    found = lm.generate_until([*same, several, several, several])
    assert found[0] == found[1] == found[2] and len(set(found[2:])) == 3
    assert [answer.config.seed for answer in lm.answers] == [0, 0, 0, 1, 2]
    assert sum(finished) == 5
    assert lm.generate_until([*same, several, several, several]) == found


def test_the_cache_hook_hears_of_every_result(tiny):
    heard = []

    class Hook:
        def add_partial(self, kind, arguments, result):
            heard.append((kind, arguments, result))

    lm = EntropyCacheLM(tiny, gen_length=8, mc_num=2)
    lm.set_cache_hook(Hook())
    text = lm.generate_until([request("12 + 34 =", {"until": []})])[0]
    value = lm.loglikelihood([request("12 + 34 =", " 46", kind="loglikelihood")])[0]
    (rolled,) = lm.loglikelihood_rolling([request("12 + 34", kind="loglikelihood_rolling")])
    assert heard == [
        ("generate_until", ("12 + 34 =", {"until": []}), text),
        ("loglikelihood", ("12 + 34 =", " 46"), value),
        ("loglikelihood_rolling", ("12 + 34",), rolled),
    ]


def test_likelihoods_are_kept_in_the_journal(tiny, tmp_path, monkeypatch):
    from entropycache.evaluation import likelihood

    asked = [request("12 + 34 =", " 46", kind="loglikelihood")]
    found = []
    for _ in range(2):
        lm = EntropyCacheLM(tiny, mc_num=4)
        with Journal(tmp_path / "e.json") as lm.journal:
            found.append((lm.loglikelihood(asked), lm.likelihoods))
        monkeypatch.setattr(likelihood, "log_likelihood", None)
    assert found[0] == found[1]


def test_worked_examples_are_earlier_turns_and_never_asked(tiny):
    lm = EntropyCacheLM(tiny, gen_length=8)
    results = evaluate(
        model=lm, tasks=[offline_config("held-out:aiw", True)], num_fewshot=8, limit=2
    )
    problems = held_out("aiw")
    for sample, problem in zip(results["samples"]["held-out:aiw"], problems, strict=False):
        prompt = sample["arguments"][0][0]
        expected = tiny.tokenizer.encode(with_examples(problem, problems[-8:]))
        assert tokens(tiny.tokenizer, prompt) == expected.tolist()
    assert results["n-samples"]["held-out:aiw"] == {"original": 192, "effective": 2}


def test_multiple_choice_is_judged_by_likelihood(tiny):
    task = {
        "task": "choosing",
        "custom_dataset": documents(question=["2 + 2 =", "1 + 1 ="], gold=[0, 1]),
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "question",
        "doc_to_choice": [" 4", " 2"],
        "doc_to_target": "gold",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    lm = EntropyCacheLM(tiny, mc_num=4)
    results = evaluate(model=lm, tasks=[task], apply_chat_template=False)
    assert len(lm.likelihoods) == 4 and all(found.passes >= 1 for found in lm.likelihoods)
    values = [r[0][0] for s in results["samples"]["choosing"] for r in s["resps"]]
    assert all(value < 0 for value in values)
    right = [values[0] > values[1], values[3] > values[2]]  # " 4" for the first, " 2" then
    assert results["results"]["choosing"]["acc,none"] == sum(right) / 2
    again = evaluate(model=lm, tasks=[task], apply_chat_template=False)
    assert [r[0][0] for s in again["samples"]["choosing"] for r in s["resps"]] == values


def test_a_long_text_is_scored_in_pieces_that_cover_it_once(tiny, monkeypatch):
    from entropycache.evaluation import likelihood

    seen = []
    monkeypatch.setattr(
        likelihood, "log_likelihood", lambda e, p, t, *_: (seen.append((p, t)), (-1.0, 1))[1]
    )
    lm = EntropyCacheLM(tiny)
    text = "12 + 34 = 46 " * 700
    ids = tokens(tiny.tokenizer, Templated(text))
    room = tiny.network.config.max_position_embeddings - 2
    assert len(ids) > room
    found = lm.loglikelihood_rolling([request(text, kind="loglikelihood_rolling")])
    assert sum((target for _, target in seen), []) == ids
    assert found == [-float(len(seen))]
    assert all(len(p) + len(t) <= room for p, t in seen)
    assert seen[1][0] == ids[: room // 2]


def test_an_open_last_message_is_continued(tiny):
    lm = EntropyCacheLM(tiny)
    chat = [{"role": "user", "content": "2 + 2"}, {"role": "assistant", "content": "It is"}]
    assert lm.apply_chat_template(chat, add_generation_prompt=False).endswith("It is")
    assert lm.chat_template(True) == tiny.tokenizer.backend.chat_template
    assert lm.chat_template(False) is None and lm.tokenizer_name == "engine"


def test_what_cannot_be_decoded_is_said_before_anything_is(tiny, engines):
    lm = EntropyCacheLM(tiny, gen_length=16)
    with pytest.raises(PromptError, match="give fewer examples or a smaller gen_length"):
        lm.generate_until(
            [request("1", {"until": []}), request("1 + " * 4096, {"until": []}, doc=1)]
        )
    assert lm.answers == []
    bare = EntropyCacheLM(engines("llada"))
    with pytest.raises(PromptError, match="no chat template"):
        bare.apply_chat_template([{"role": "user", "content": "x"}])
    with pytest.raises(PromptError, match="no tokenizer"):
        bare.generate_until([request("text", {"until": []})])
