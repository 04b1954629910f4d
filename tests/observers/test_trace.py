"""Traces: written, read, replayed, drawn; and what is not one is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from entropycache.errors import OptionError, RecordError
from entropycache.observers.pictures import CACHED, RECOMPUTED, draw_png, grids, write_html
from entropycache.observers.trace import TraceWriter, read_trace
from tests.conftest import FAMILIES

OPTIONS = {"gen_length": 20, "window": 8, "threshold": 0.5, "policy": "entropy:tau=0.8,k=2"}


@pytest.fixture
def traced(engines, tmp_path):
    """``traced(family)``: a trace file of two prompts, and the completions."""

    def make(family):
        engine, path = engines(family), tmp_path / "run.jsonl"
        with TraceWriter(path, engine.tokenizer, family) as writer:
            done = engine.generate([[1, 2, 3], [9, 8, 7, 6, 5]], on_step=writer.write, **OPTIONS)
        return path, done

    return make


@pytest.mark.parametrize("family", FAMILIES)
def test_replaying_a_trace_rebuilds_every_canvas(engines, traced, family):
    path, done = traced(family)
    trace = read_trace(path)
    for i, prompt in enumerate(([1, 2, 3], [9, 8, 7, 6, 5])):
        frames = list(engines(family).stream(prompt, **OPTIONS))
        replayed = list(trace.requests[i].canvases())
        assert len(replayed) == len(frames) == done[i].forwards
        for canvas, frame in zip(replayed, frames, strict=True):
            assert (canvas == frame.canvas).all()
        recorded = trace.requests[i].steps
        for record, frame in zip(recorded, frames, strict=True):
            assert record.get("rows", frame.step.rows.tolist()) == frame.step.rows.tolist()
            np.testing.assert_allclose(record["entropy"], frame.step.entropies, atol=1e-4)


def test_a_trace_names_its_version_and_other_versions_are_refused(traced, tmp_path):
    path, _ = traced("llada")
    lines = path.read_text().splitlines()
    assert json.loads(lines[0])["trace"] == 1
    for text, said in {
        "": "holds no step",
        "[1]": "line 1: not a trace",
        lines[0]: "holds no step",
        lines[1] + "\n": "line 1: not a trace of version 1: the first line says None",
        '{"trace": 2}': "line 1: not a trace of version 1: the first line says 2",
        lines[0] + "\nnot json": "line 2: not JSON",
        lines[0] + '\n{"request": 5, "step": 0}': "line 2",
    }.items():
        (tmp_path / "bad").write_text(text + "\n")
        with pytest.raises(RecordError, match=said):
            read_trace(tmp_path / "bad")
    with pytest.raises(RecordError, match="cannot be read"):
        read_trace(tmp_path / "absent")


def test_a_trace_that_was_cut_short_is_read_as_far_as_it_goes(traced, tmp_path):
    path, _ = traced("llada")
    data = path.read_bytes()
    whole = read_trace(path).requests[0].steps
    for end in (len(data) - 1, len(data) // 2):
        (tmp_path / "cut").write_bytes(data[:end])
        found = read_trace(tmp_path / "cut").requests[0].steps
        assert found == whole[: len(found)] and found


def test_a_refused_request_leaves_an_older_trace_alone(engines, tmp_path):
    (tmp_path / "old").write_text("precious")
    with TraceWriter(tmp_path / "old", engines("llada").tokenizer, "x"):
        pass
    assert (tmp_path / "old").read_text() == "precious"
    writer = TraceWriter(tmp_path / "no" / "folder", engines("llada").tokenizer, "x")
    with pytest.raises(OptionError, match="cannot be written"):
        engines("llada").generate([1], on_step=writer.write, **OPTIONS)


def test_a_resumed_trace_is_appended_to_under_the_names_of_the_records(engines, tmp_path):
    engine, path = engines("llada"), tmp_path / "t.jsonl"
    for names, resumed in (("ab", False), ("bc", True)):
        with TraceWriter(path, engine.tokenizer, "x", list(names), resumed) as writer:
            engine.generate([[1], [2]], on_step=writer.write, **OPTIONS)
        path.write_bytes(path.read_bytes() + b'{"request": "torn')
    trace = read_trace(path)
    assert set(trace.requests) == {"a", "b", "c"}
    assert trace.requests["b"].canvas[0] == 1, "opened again by the second run"
    assert all(r.steps[0]["step"] == 0 for r in trace.requests.values())


def test_a_trace_in_use_is_refused_before_a_step_and_stays_as_it_is(engines, tmp_path):
    engine, path = engines("llada"), tmp_path / "t.jsonl"
    with TraceWriter(path, engine.tokenizer, "x") as writer:
        engine.generate([1], on_step=writer.write, **OPTIONS)
        before = path.read_bytes()
        for resumed in (False, True):
            with (
                pytest.raises(OptionError, match="t.jsonl: cannot be written: another run"),
                TraceWriter(path, engine.tokenizer, "x", resumed=resumed),
            ):
                pass
        assert path.read_bytes() == before


def test_what_is_no_trace_is_not_resumed_stays_as_it_is_and_is_free_again(engines, tmp_path):
    text, path = engines("llada").tokenizer, tmp_path / "t.jsonl"
    path.write_text("notes\n{")
    for _ in range(2):
        with pytest.raises(RecordError, match="not JSON"), TraceWriter(path, text, "x", None, True):
            pass
        assert path.read_text() == "notes\n{"


def test_a_new_trace_takes_the_place_of_an_older_one(engines, traced):
    path, _ = traced("llada")
    engine = engines("llada")
    with TraceWriter(path, engine.tokenizer, "later", ["a"]) as writer:
        engine.generate([1], on_step=writer.write, **OPTIONS)
    trace = read_trace(path)
    assert trace.header["model"] == "later" and set(trace.requests) == {"a"}


@pytest.mark.parametrize("there", [None, b""])
def test_a_trace_resumed_where_there_is_none_starts_with_its_header(engines, tmp_path, there):
    engine, path = engines("llada"), tmp_path / "t.jsonl"
    if there is not None:
        path.write_bytes(there)
    with TraceWriter(path, engine.tokenizer, "x", resumed=True) as writer:
        engine.generate([1], on_step=writer.write, **OPTIONS)
    assert read_trace(path).header["model"] == "x"


def test_a_torn_line_of_a_resumed_trace_is_gone_once_a_step_is_written(engines, traced, tmp_path):
    path, _ = traced("llada")
    whole, engine = path.read_bytes(), engines("llada")
    path.write_bytes(whole + b'{"request": "torn')
    with TraceWriter(path, engine.tokenizer, "x", ["next"], resumed=True) as writer:
        engine.generate([1], on_step=writer.write, **OPTIONS)
    assert path.read_bytes().startswith(whole + b'{"request": "next"')


def test_a_trace_on_a_full_device_ends_in_one_sentence(engines):
    engine = engines("llada")
    with (
        pytest.raises(OptionError, match="^/dev/full: cannot be written: No space left on device$"),
        TraceWriter(Path("/dev/full"), engine.tokenizer, "x") as writer,
    ):
        engine.generate([1], on_step=writer.write, **OPTIONS)


def test_pictures_tell_recomputed_positions_from_cached_ones(traced, tmp_path):
    path, _ = traced("llada")
    trace = read_trace(path)
    grey, entropy, full = grids(trace.requests[0])
    assert full[0] and (grey[0, :3] == RECOMPUTED).all()
    partial = int(np.flatnonzero(~full)[0])
    assert (grey[partial, :3] == CACHED).all()
    assert np.isfinite(entropy).sum() == 20
    draw_png(trace, tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_self_contained_and_carries_the_steps(traced, tmp_path):
    path, done = traced("llada")
    trace = read_trace(path)
    trace.requests[0].prompt[0] = "<!--<script></script><b>"
    write_html(trace, tmp_path / "run.html", "a <title>")
    page = (tmp_path / "run.html").read_text()
    assert "a &lt;title&gt;" in page and "</script><b>" not in page and "<!--<script>" not in page
    assert not re.search(r"(src|href)=", page)
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])
    assert [len(r["steps"]) for r in data["requests"]] == [c.forwards for c in done]


def test_a_trace_is_written_as_it_goes(engines, tmp_path):
    path = tmp_path / "t.jsonl"
    with TraceWriter(path, engines("llada").tokenizer, "x") as writer:
        for frame in engines("llada").stream([1], **OPTIONS):
            before = path.read_text().count("\n") if path.exists() else 0
            writer.write(frame)
            more = 3 if frame.step.index == 0 else 1
            assert path.read_text().count("\n") == before + more
