"""Analysis: drift is measured between exact passes, correlations are what statistics says they are,
and calibration keeps the agreement it promises.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

from entropycache import GenerationConfig, load
from entropycache.analysis import calibrate, correlation
from entropycache.analysis.drift import Transition, transitions
from entropycache.bench import ablations
from entropycache.cli import app
from entropycache.core.steps import Commit, Scores, Step
from entropycache.engine.output import Completion
from entropycache.errors import CheckpointError, OptionError
from entropycache.io.problems import held_out
from entropycache.policies.entropy import SIGNALS
from tests.conftest import DATA, FAMILIES

ONE = GenerationConfig(gen_length=12, window=6, tokens_per_step=1, early_stop=False)


def values(engine, ids):
    """Value vectors ``(layers, length, width)`` of a canvas by a pass of its own."""
    found = []

    def attend(layer, q, k, v):
        found.append(v.flatten(1))
        query, key, value = (x.transpose(0, 1)[None] for x in (q, k, v))
        shared = q.shape[1] != k.shape[1]
        mixed = F.scaled_dot_product_attention(query, key, value, enable_gqa=shared)
        return mixed[0].transpose(0, 1)

    with torch.no_grad():
        engine.network(torch.tensor(ids), torch.arange(len(ids)), attend)
    return torch.stack(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_drift_is_that_between_exact_passes(family, engines):
    engine = engines(family, "float64")
    prompt = [5, 6, 7]
    frames = list(engine.stream(prompt, ONE, policy="none"))
    mask = engine.tokenizer.mask_id
    canvases = [[*prompt, *[mask] * 12], *(frame.canvas.tolist() for frame in frames)]
    found = list(transitions(engine, [prompt], ONE))
    assert len(found) == 11, "the last commit has no pass after it"
    for i, transition in enumerate(found):
        before, after = values(engine, canvases[i]), values(engine, canvases[i + 1])
        drift = 1 - F.cosine_similarity(before, after, dim=-1)
        position = int(frames[i].step.commit.positions[0])
        others = [p for p in range(15) if p != position]
        np.testing.assert_allclose(transition.others, drift[:, others].mean(1), atol=1e-9)
        np.testing.assert_allclose(transition.committed, drift[:, position], atol=1e-9)
        assert transition.prompt == pytest.approx(float(drift[:, :3].mean()), abs=1e-9)
        assert transition.entropy == pytest.approx(float(frames[i].step.entropies.max()))
        assert sorted(transition.ages.tolist()) == list(range(1, i + 2))
        youngest = transition.aged[transition.ages == 1]
        assert youngest == pytest.approx(float(drift[:, position].mean()), abs=1e-9)


def made(entropy, drift, request=0):
    two = np.array([drift, drift])
    ages, aged = np.array([1, 2]), np.array([0.5, drift])
    return Transition(request, 0, entropy, 0.5, two, two, ages, aged, 0.1)


def test_correlation_of_what_is_known():
    monotone = [made(x, x**3, i % 4) for i, x in enumerate(np.linspace(0.1, 2, 40))]
    found = correlation.correlate(monotone)
    assert found["entropy"]["spearman"]["value"] == 1
    assert found["entropy"]["spearman"]["interval_95"] == [1, 1]
    assert found["entropy"]["pearson_of_logarithms"]["value"] == 1
    assert 0.8 < found["entropy"]["pearson"]["value"] < 1
    assert found["1 - confidence"]["pearson"]["value"] is None, "it does not vary"
    rng = np.random.default_rng(3)
    noise = [made(*rng.random(2), request=i % 10) for i in range(400)]
    low, high = correlation.correlate(noise)["entropy"]["spearman"]["interval_95"]
    assert low < 0 < high


def test_the_first_layer_says_nothing_and_one_prompt_gives_no_interval():
    layered = [replace(made(x, x), others=np.array([5 - x, x])) for x in np.linspace(0.1, 2, 20)]
    found = correlation.correlate(layered)
    assert found["entropy"]["spearman"] == {"value": 1, "interval_95": [None, None]}
    assert found["spearman_from_second_layer"] == [1]


def test_prompts_are_drawn_whole():
    # Ten copies of one prompt's points say no more than one copy does.
    few = [
        made(x, y, request=r) for r, (x, y) in enumerate(np.random.default_rng(1).random((8, 2)))
    ]
    many = [t for t in few for _ in range(10)]
    one, ten = (correlation.correlate(x)["entropy"]["pearson"] for x in (few, many))
    assert one["interval_95"] == pytest.approx(ten["interval_95"], abs=1e-3)


def test_drift_by_age():
    found = correlation.by_age([made(0.1, 0.15), made(0.2, 0.25)] * 5)
    assert found["ages"] == [1, 2]
    assert found["mean_drift"] == pytest.approx([0.5, 0.2])
    assert found["prompt_drift"] == pytest.approx([0.1, 0.1])
    assert found["positions"] == [10, 10]
    assert found["volatile_for"] == 1
    late = replace(made(0.1, 0.15), ages=np.full(10, 40), aged=np.ones(10))
    assert correlation.by_age([made(0.1, 0.15), made(0.2, 0.25), late] * 5)["volatile_for"] == 1
    few = correlation.by_age([made(0.1, 0.15)] * 3)
    assert few["ages"] == [] and few["volatile_for"] == 0
    promptless = [replace(t, prompt=float("nan")) for t in [made(0.1, 0.15)] * 10]
    assert correlation.by_age(promptless)["prompt_drift"] == [None, None]


def test_ablations_change_one_setting_each():
    base = GenerationConfig(threshold=0.8, window=16)
    curves = ablations.points(base)
    assert {p.curve.split()[0] for p in curves} == {"tau", "k", "window", "signal"}
    for point in curves:
        assert point.base.policy == "none"
        assert point.config.threshold == 0.8
        assert point.config.window == (int(point.x) if point.curve == "window" else 16)
        assert point.config.window == point.base.window
    defaults = [p for p in curves if p.default]
    assert {p.curve for p in defaults} == {"tau", "k", "window", "signal max"}
    configs = [c.config for c in ablations.candidates(None, curves)]
    assert len(configs) == len(set(configs)) and configs[0].policy == "none"


def test_signals_agree_where_one_token_is_committed(tiny):
    chat = held_out("products")[0].chat
    options = {"gen_length": 48, "tokens_per_step": 1}
    largest, mean = (
        tiny.generate(chat, policy=f"entropy:tau=0.05,signal={s}", **options)
        for s in ("max", "mean")
    )
    assert largest.full_passes == mean.full_passes and largest.commits == mean.commits
    always = tiny.generate(chat, policy="entropy:tau=-1,signal=confidence", **options)
    never = tiny.generate(chat, policy="entropy:tau=1,signal=confidence", **options)
    assert always.full_passes == always.forwards and never.full_passes == 1
    with pytest.raises(OptionError, match="signal must be max, mean, confidence, not 'median'"):
        tiny.generate(chat, policy="entropy:signal=median")


def test_each_signal_is_what_its_name_says():
    scores = Scores(np.arange(3), np.array([0.9, 0.2, 0.6]), lambda i: np.array([0.1, 2.0, 0.4])[i])
    commit = Commit(np.array([4, 6]), np.array([0, 2]), np.array([0, 2]))
    step = Step(0, 0, None, None, scores, commit, np.arange(3), 3.0, False)
    found = {name: signal(step) for name, signal in SIGNALS.items()}
    assert found == pytest.approx({"max": 0.4, "mean": 0.25, "confidence": 0.4})


def test_agreement_counts_equal_tokens_of_the_longer_answer():
    plain = Completion(token_ids=[1, 2, 3, 0], answer_tokens=3)
    assert calibrate.agreement(plain, plain) == 1
    assert calibrate.agreement(plain, Completion(token_ids=[1, 2, 9, 9], answer_tokens=4)) == 0.5
    assert calibrate.agreement(Completion(token_ids=[0]), Completion(token_ids=[0])) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_calibration_chooses_the_cheapest_that_holds(family, engines):
    engine = engines(family, "float64")
    prompts = [[i, i + 1, i + 2] for i in range(3, 15)]
    config = GenerationConfig(gen_length=16, window=8, tokens_per_step=2, early_stop=False)
    found = calibrate.calibrate(engine, prompts, config, target=0.9)
    accepted = [c for c in found.tried if c.agreement_low >= 0.9]
    assert accepted == [c for c in found.tried if c.accepted]
    assert found.chosen.rows_share == min(c.rows_share for c in accepted)
    assert found.tried[0].policy == "entropy:tau=-1,k=64" and found.tried[0].agreement == 1
    again = calibrate.calibrate(engine, prompts, config, target=0.9)
    assert again == found, "rows, not seconds, decide"


def test_an_exact_target_is_met_exactly(engines):
    engine = engines("llada", "float64")
    config = GenerationConfig(gen_length=16, window=8, tokens_per_step=1, early_stop=False)
    prompts = [[i, 5, 6] for i in range(10)]
    found = calibrate.calibrate(engine, prompts, config, target=1.0)
    for prompt in prompts:
        cached = engine.generate(prompt, config, policy=found.policy)
        assert cached.token_ids == engine.generate(prompt, config, policy="none").token_ids


@pytest.mark.parametrize("target", [0, -1, 1.5, float("nan")])
def test_targets_that_make_no_sense(target, engines):
    with pytest.raises(OptionError, match="target agreement"):
        calibrate.calibrate(engines("llada", "float32"), [[1]], ONE, target)


def test_a_saved_calibration_is_used_by_name(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(DATA / "llada", folder)
    command = ["calibrate", "--model", str(folder), "--prompts", str(tmp_path / "p.jsonl")]
    command += ["--target-agreement", "0.9", "--gen-length", "16", "--tokens-per-step", "2"]
    lines = [json.dumps({"id": i, "prompt_ids": [i, 2, 3]}) + "\n" for i in range(10)]
    (tmp_path / "p.jsonl").write_text("".join(lines[:9]))
    few = CliRunner().invoke(app, command)
    assert "at least 10 prompts, not 9" in str(few.exception)
    (tmp_path / "p.jsonl").write_text("".join(lines))
    options = {"gen_length": 16, "tokens_per_step": 2, "policy": "calibrated"}
    with pytest.raises(OptionError, match="needs a calibration saved beside the model"):
        load(str(folder)).generate([1, 2, 3], **options)
    shown = CliRunner().invoke(app, [*command, "--save"])
    assert shown.exit_code == 0, shown.output
    saved = json.loads((folder / "entropycache.json").read_text())
    assert f"use --policy {saved['policy']}" in shown.output
    assert saved["decoding"]["tokens_per_step"] == 2
    engine = load(str(folder))
    named = engine.generate([1, 2, 3], **options)
    spelt = engine.generate([1, 2, 3], **{**options, "policy": saved["policy"]})
    assert named.commits == spelt.commits and named.rows_computed == spelt.rows_computed
    (folder / "entropycache.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not what calibrate saves"):
        load(str(folder))


def test_analyze_writes_one_page_that_needs_nothing_else(tmp_path):
    out = tmp_path / "out"
    command = ["analyze", "--count", "2", "--tasks", "products", "--gen-length", "40"]
    shown = CliRunner().invoke(app, [*command, "--output", str(out)])
    assert shown.exit_code == 0, shown.output
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(list(out.glob("*.png"))) == 6
    assert "http" not in page.replace("http-equiv", "")
    data = json.loads((out / "analysis.json").read_text())
    assert data["correlation"]["points"] >= 10 and len(data["ablations"]) > 30
    assert [r["x"] for r in data["ablations"] if r["curve"] == "k"] == list(ablations.KS)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["analyze", "--policy", "none"], "--policy has no meaning here"),
        (["calibrate", "--policy", "none"], "--policy has no meaning here"),
        (["analyze", "--part", "drifts"], "--part must be drift or ablations, not 'drifts'"),
        (["calibrate", "--target-agreement", "2"], "target agreement must be above 0"),
        (["analyze", "--tasks", "sudoku"], "unknown task 'sudoku'"),
    ],
)
def test_mistakes_are_told(command, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code != 0 and said in str(shown.exception)


def test_the_package_ships_no_calibration_by_accident():
    assert not (files("entropycache") / "assets" / "tiny" / "entropycache.json").is_file()
