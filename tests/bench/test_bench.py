"""Measuring: clocks count every second once and change nothing, candidates take turns, and what is
compared is what was asked for.
"""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from entropycache import GenerationConfig
from entropycache.bench import attribution, comparison, foreign
from entropycache.bench.cases import file_cases, problem_cases
from entropycache.bench.command import Matrix, options_of
from entropycache.bench.comparison import Candidate, Case, Result, interleave
from entropycache.bench.random_models import HALF_BILLION, SHAPES, random_engine
from entropycache.bench.report import numbers
from entropycache.bench.scaling import scale
from entropycache.cli import app
from entropycache.engine.timing import PARTS, NullRecorder, Recorder
from entropycache.errors import OptionError, PromptError, RecordError
from entropycache.observers.statistics import ratio_interval, wilson
from tests.conftest import DATA

SHORT = GenerationConfig(gen_length=24, window=8, tokens_per_step=2, early_stop=False)
POLICIES = ("none", "entropy", "d2", "elastic", "dllm", "fast-dual", "dkv-decode")


@pytest.fixture
def seconds(monkeypatch):
    """A clock that is told what time it is."""
    now = [0.0]
    monkeypatch.setattr("entropycache.engine.timing.time.perf_counter", lambda: now[0])
    return now


def test_time_within_a_part_is_counted_once_as_the_inner_ones(seconds):
    clock = Recorder(torch.device("cpu"))
    with clock.part("engine"):
        seconds[0] += 1
        with clock.part("network"):
            seconds[0] += 2
            with clock.part("decision"):
                seconds[0] += 4
            seconds[0] += 8
        seconds[0] += 16
    seconds[0] += 32
    assert clock.seconds["engine"] == 17
    assert clock.seconds["network"] == 10
    assert clock.seconds["decision"] == 4
    assert clock.total == 31


@pytest.mark.parametrize("policy", POLICIES)
def test_a_watched_run_decodes_the_same_and_leaves_nothing_behind(policy, engines):
    engine = engines("llada", "float32")
    config = replace(SHORT, policy=policy)
    row = Result(Candidate("watched", engine, config))
    row.add(Case([1, 2, 3]))
    assert type(engine.runner.recorder) is NullRecorder
    assert row.done[0].token_ids == engine.generate([1, 2, 3], config).token_ids
    assert row.done[0].seconds == pytest.approx(sum(row.parts[0][part] for part in PARTS))
    assert min(row.parts[0].values()) >= 0
    assert row.parts[0]["network"] > 0
    assert row.parts[0]["decision"] > 0


def test_every_case_meets_every_arm_and_arms_take_turns(engines, monkeypatch):
    engine = engines("llada", "float32")
    seen = []
    original = comparison._decoded

    def noted(candidate, case, clock):
        seen.append((candidate.name, case.prompt[0]))
        return original(candidate, case, clock)

    monkeypatch.setattr(comparison, "_decoded", noted)
    candidates = [
        Candidate(name, engine, replace(SHORT, policy=name)) for name in ("none", "entropy")
    ]
    rows = list(interleave(candidates, [Case([i]) for i in (1, 2, 3)]))[-1]
    counted = seen[2:]
    assert counted == [
        *(("none", 1), ("entropy", 1)),
        *(("entropy", 2), ("none", 2)),
        *(("none", 3), ("entropy", 3)),
    ], "the first two only warm up"
    assert [len(row.done) for row in rows] == [3, 3]


def test_numbers_of_an_arm_beside_itself(tiny):
    candidate = Candidate("none", tiny, GenerationConfig(policy="none", gen_length=64))
    cases = problem_cases(["aiw", "products"], 4)
    (row,) = list(interleave([candidate], cases))[-1]
    found = row.numbers(row)
    assert found["speed_up"] == 1
    assert found["speed_up_interval_95"] == (1, 1)
    assert found["same_answer_percent"] == 100
    solved = sum(c.problem.solved_by(d.text) for c, d in zip(cases, row.done, strict=True))
    assert found["accuracy_percent"] == 25 * solved
    assert found["forwards"] == found["full_passes"] == np.mean([d.forwards for d in row.done])
    tokens = sum(d.answer_tokens for d in row.done)
    assert found["rows_per_token"] == round(sum(d.rows_computed for d in row.done) / tokens, 2)
    assert sum(found["time_percent"].values()) == pytest.approx(100, abs=0.1)
    assert set(row.by_group()) == {"aiw", "products"}


def test_worked_examples_are_never_asked():
    cases = problem_cases(["products"], 5, shots=3)
    for case in cases:
        asked = [m["content"] for m in case.prompt if m["role"] == "user"]
        assert len(asked) == 4 and len(set(asked)) == 4
        assert asked[-1] == case.problem.question
    shown = {m["content"] for case in cases for m in case.prompt[:-1]}
    assert not shown & {case.problem.question for case in cases}
    with pytest.raises(OptionError, match="products has 200 held-out problems, not 199 and 2"):
        problem_cases(["products"], 199, shots=2)


def test_prompts_of_a_file_are_checked_first(tmp_path, tiny):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": 1, "prompt": "1 + 1 ="}\n{"id": 2, "prompt_ids": [5, 6]}\n')
    assert [case.prompt for case in file_cases(file, tiny)] == ["1 + 1 =", [5, 6]]
    file.write_text('{"id": 1, "prompt_ids": [999999]}\n')
    with pytest.raises(PromptError, match="999999"):
        file_cases(file, tiny)
    file.write_text('{"id": 7, "prompt": "1", "seed": 3}\n')
    with pytest.raises(OptionError, match="id 7 has decoding options"):
        file_cases(file, tiny)
    file.write_text("")
    with pytest.raises(OptionError, match="holds no prompt"):
        file_cases(file, tiny)
    file.write_text('{"id": 1}\n')
    with pytest.raises(RecordError, match="line 1"):
        file_cases(file, tiny)


def test_intervals():
    low, high = wilson(50, 100)
    assert (low, high) == (40.4, 59.6), "as tables of the Wilson interval give it"
    assert wilson(0, 10)[0] == 0 and wilson(10, 10)[1] == 100
    over = [(10, 1.0), (20, 2.0), (30, 3.0)]
    assert ratio_interval(over, [(t, 2 * s) for t, s in over]) == (2, 2)


def test_taking_one_ingredient_away_takes_that_one(engines):
    engine = engines("llada", "float32")
    config = GenerationConfig(gen_length=24, threshold=0.9, window=32)
    candidates = {candidate.name: candidate for candidate in attribution.candidates(engine, config)}
    plain, cached = candidates["plain"].config, candidates["the cache alone"].config
    assert (plain.policy, plain.tokens_per_step, plain.early_stop) == ("none", 1, False)
    assert (cached.policy, cached.tokens_per_step, cached.early_stop) == ("entropy", 1, False)
    assert candidates["all but early stop"].config == replace(config, early_stop=False)
    assert candidates["all together"].config == config
    assert len(candidates) == 3 + 2 * 3 + 1
    with pytest.raises(OptionError, match="no ingredient"):
        attribution.candidates(engine, plain)


def test_nothing_but_the_ingredient_goes(engines):
    engine = engines("llada", "float32")
    elastic = attribution.candidates(engine, GenerationConfig(gen_length=24, policy="elastic"))
    assert {candidate.config.window for candidate in elastic} == {16}, (
        "the window that Elastic-Cache prefers"
    )
    sampler = attribution.candidates(
        engine, GenerationConfig(gen_length=24, alg="entropy", steps=8)
    )
    assert {candidate.config.steps for candidate in sampler} == {8, 24}
    names = [
        candidate.name
        for candidate in attribution.candidates(engine, GenerationConfig(policy="dllm"))
    ]
    assert "the cache alone" in names and not any("head" in name for name in names)


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_the_whole_head_computes_more_and_answers_the_same(family, engines):
    engine = engines(family, "float32")
    twin = attribution.whole_head(engine)
    rows = []
    original = type(engine.network).logits

    class Counting(type(engine.network)):
        def logits(self, hidden):
            rows.append(len(hidden))
            return original(self, hidden)

    engine.network.__class__, before = Counting, engine.network.__class__
    try:
        small = engine.generate([1, 2, 3], SHORT)
        few, rows[:] = sum(rows), []
        whole = twin.generate([1, 2, 3], SHORT)
    finally:
        engine.network.__class__ = before
    assert whole.token_ids == small.token_ids
    assert sum(rows) == few + whole.rows_computed


def test_a_foreign_function_stands_in_the_same_table(engines, monkeypatch, tmp_path):
    (tmp_path / "theirs.py").write_text(
        "def generate(prompt_ids, gen_length, threshold=None):\n"
        "    return [*prompt_ids, *([7] * gen_length)]\n"
        "def short(prompt_ids, **options):\n"
        "    assert 'policy' not in options\n"
        "    return [1]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    engine = engines("llada", "float32")
    candidate = Candidate("theirs", engine, SHORT, foreign.load_foreign("theirs:generate"))
    row = Result(candidate)
    row.add(Case([1, 2]))
    assert row.done[0].token_ids == [7] * 24
    assert row.done[0].answer_tokens == 24
    with pytest.raises(OptionError, match="short returned 1 token ids; gen_length is 24"):
        Result(replace(candidate, foreign=foreign.load_foreign("theirs:short"))).add(Case([1, 2]))


def test_a_foreign_function_keeps_its_own_defaults(engines):
    seen = []

    def theirs(prompt_ids, steps=7, gen_length=1, threshold=0.5, block_length=4, window=1):
        seen.append((steps, gen_length, threshold, block_length, window))
        return torch.zeros(1, gen_length, dtype=torch.long)

    candidate = Candidate(
        "theirs", engines("llada", "float32"), GenerationConfig(gen_length=8), theirs
    )
    Result(candidate).add(Case([1]))
    assert seen == [(7, 8, 0.9, 4, 32)], "what is in force, and nothing for what is not"

    def broken(prompt_ids):
        raise KeyError("theirs")

    with pytest.raises(OptionError, match="broken: KeyError"):
        Result(replace(candidate, foreign=broken)).add(Case([1]))


def test_models_and_lengths_are_compared_with_their_own(engines):
    candidates = [
        Candidate(
            f"{policy} {family} {length}",
            engines(family),
            replace(SHORT, policy=policy, gen_length=length),
        )
        for family in ("llada", "dream")
        for length in (8, 16)
        for policy in ("none", "entropy")
    ]
    found = numbers(list(interleave(candidates, [Case([1, 2]), Case([3])]))[-1])
    for name, row in found.items():
        policy, family, length = name.split()
        assert row["compared_with"] == f"none {family} {length}"
        assert policy != "none" or row["speed_up"] == 1 and row["same_answer_percent"] == 100
    assert found["entropy llada 16"]["same_answer_percent"] < 100, "ids, not text, are compared"


def test_answers_of_no_tokens_have_no_speed(tiny):
    ends = GenerationConfig(gen_length=8)
    candidates = [Candidate(p, tiny, replace(ends, policy=p)) for p in ("none", "entropy")]
    found = numbers(list(interleave(candidates, [Case([3, 4, 5]), Case([3, 4, 5])]))[-1])
    assert found["none"]["answer_tokens"] == 0, "this prompt is answered by an end token"
    assert found["entropy"]["speed_up"] is None
    assert found["entropy"]["speed_up_interval_95"] is None
    assert found["entropy"]["rows_per_token"] is None


def test_problems_are_spread_evenly():
    groups = [case.group for case in problem_cases(["aiw", "products", "chain_sum"], 4)]
    assert groups == ["aiw", "products", "chain_sum", "aiw"]


@pytest.mark.parametrize("spec", ["theirs", ":f", "no_such_module_here:f", "json:nothing"])
def test_a_foreign_function_that_is_not_there(spec):
    with pytest.raises(OptionError, match="--against"):
        foreign.load_foreign(spec)


def test_rules_are_decoding_options():
    assert options_of("threshold=0.8,window=16,early_stop=false") == {
        "threshold": 0.8,
        "window": 16,
        "early_stop": False,
    }
    with pytest.raises(OptionError, match="treshold"):
        options_of("treshold=0.8")
    candidates = Matrix(
        policies=("none", "d2"), rules=("threshold=0.9", "tokens_per_step=2")
    ).candidates()
    assert [candidate.name for candidate in candidates] == [
        "plain",
        "none, threshold=0.9",
        "d2, threshold=0.9",
        "none, tokens_per_step=2",
        "d2, tokens_per_step=2",
    ]
    assert candidates[0].config.early_stop is False and candidates[0].config.block_length == 32
    assert candidates[-1].config.tokens_per_step == 2 and candidates[-1].config.threshold is None


def test_published_shapes_have_their_published_sizes():
    def count(shape):
        heads, kv = (
            shape.num_attention_heads * shape.head_dim,
            shape.num_key_value_heads * shape.head_dim,
        )
        layer = (
            shape.hidden_size * (2 * heads + 2 * kv)
            + 3 * shape.hidden_size * shape.intermediate_size
        )
        return (shape.num_hidden_layers * layer + 2 * shape.hidden_size * shape.vocab_size) / 1e9

    assert count(SHAPES["llada-8b"][0]) == pytest.approx(8.02, abs=0.01)
    assert count(SHAPES["dream-7b"][0]) == pytest.approx(7.62, abs=0.01)
    assert count(HALF_BILLION) == pytest.approx(0.50, abs=0.01)
    with pytest.raises(OptionError, match="unknown shape 'gpt'; known: llada-8b"):
        random_engine("gpt")


def test_scaling_tells_full_from_partial_steps(monkeypatch):
    small = replace(
        HALF_BILLION,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=8,
        intermediate_size=64,
    )
    named = {"small": (replace(small, vocab_size=300), SHAPES["llada-8b"][1])}
    monkeypatch.setattr("entropycache.bench.random_models.SHAPES", named)
    engine = random_engine("small", dtype=torch.float32)
    ticks = count()  # a clock that the load of the machine does not reach
    monkeypatch.setattr("entropycache.engine.timing.time.perf_counter", lambda: next(ticks) / 1000)
    rows = list(scale(engine, [300, 500], steps=3))
    assert [(r["policy"], r["canvas"]) for r in rows] == [
        (policy, canvas) for canvas in (300, 500) for policy in ("none", "entropy:tau=1e9")
    ]
    assert [r["rows"] for r in rows] == [300, 96, 500, 96], "window 32 and k 64"
    for row in rows:
        parts = row["network_ms"] + row["decision_ms"] + row["sampling_ms"] + row["engine_ms"]
        assert parts == pytest.approx(row["step_ms"], rel=0.5)
        assert row["bare_ms"] > 0
    assert next(scale(engine, [256], steps=2))["rows"] == 256, "no prompt at all"
    with pytest.raises(OptionError, match="at least its 256"):
        list(scale(engine, [255]))
    with pytest.raises(OptionError, match="at most 47 steps"):
        list(scale(engine, [300], steps=48))


def test_the_command_writes_table_json_csv_and_pictures(tmp_path):
    out = tmp_path / "out"
    command = ["bench", "--count", "2", "--tasks", "aiw", "--gen-length", "40", "--no-plain"]
    command += ["--shots", "0", "--shots", "1", "--output", str(out)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    data = json.loads((out / "bench.json").read_text())
    assert list(data["results"]) == ["0-shot", "1-shot"]
    assert list(data["results"]["0-shot"]) == ["none", "entropy"]
    assert data["configs"]["entropy"]["gen_length"] == 40
    assert data["versions"]["torch"] == torch.__version__
    lines = list(csv.DictReader((out / "bench.csv").read_text().splitlines()))
    assert [(line["setting"], line["name"]) for line in lines][:2] == [
        ("0-shot", "none"),
        ("0-shot", "entropy"),
    ]
    shots = data["results"]["1-shot"]["none"]["prompt_tokens"]
    assert shots > data["results"]["0-shot"]["none"]["prompt_tokens"]
    pictures = {p.name for p in out.glob("*.png")}
    assert pictures == {
        "context.png",
        *(f"{kind}_{n}-shot.png" for kind in ("speed_accuracy", "time") for n in (0, 1)),
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "entropi"], "unknown policy 'entropi'"),
        (["--policy", "none", "--policy", "none"], "asked for twice: none"),
        (["--rule", "policy=d2"], "policy has an option of its own, --policy"),
        (["--tasks", ","], "give at least one task"),
        (["--input", str(DATA / "prompts.jsonl"), "--shots", "3"], "has no --tasks, --count"),
        (["--policy", "d2", "scaling"], "stands before scaling; put it behind"),
        (["--rule", "threshold=2"], "threshold must be"),
        (["--policy", "dkv-greedy"], "needs an order drawn in advance"),
        (["--tasks", "sudoku"], "unknown task 'sudoku'"),
        (["--model", str(DATA / "nowhere")], "nowhere"),
        (["--output", "/proc/none"], "cannot be made"),
    ],
)
def test_mistakes_are_told_before_anything_is_decoded(options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "_decoded", lambda *_: pytest.fail("decoded"))
    shown = CliRunner().invoke(app, ["bench", "--count", "2", *options])
    assert shown.exit_code != 0
    assert said in str(shown.exception)


def test_attribution_from_the_command_line(tmp_path):
    out = tmp_path / "out"
    command = ["bench", "attribution", "--count", "1", "--tasks", "aiw", "--gen-length", "32"]
    shown = CliRunner().invoke(app, [*command, "--output", str(out)])
    assert shown.exit_code == 0, shown.output
    found = json.loads((out / "attribution_0-shot.json").read_text())["results"]
    assert list(found)[0] == "plain" and "all but the smaller head" in found
    assert found["plain"]["forwards"] == 32
    assert found["all together"]["forwards"] < 32
