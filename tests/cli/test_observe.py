"""``entropycache trace``: a trace is drawn as a picture and as a page."""

from __future__ import annotations

from tests.cli.tools import FAST, MODEL, run


def test_a_trace_is_written_and_drawn(tmp_path):
    path = tmp_path / "t.jsonl"
    run("generate", *MODEL, *FAST, "--prompt-ids", "1 2", "--trace", str(path))
    found = run("trace", str(path))
    assert found.exit_code == 0, found.output
    assert (tmp_path / "t.png").stat().st_size > 5000
    assert "</html>" in (tmp_path / "t.html").read_text()
