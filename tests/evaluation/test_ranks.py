"""Ranks: two processes find what one finds."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

from tests.evaluation.tools import FAST, measured, without_times


def test_two_ranks_find_what_one_finds(tmp_path):
    arguments = ["--tasks", "held-out:aiw", *FAST]
    alone = measured(tmp_path / "one.json", *arguments)
    launch = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=300)
    done = launch(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
            *("--master_addr", "127.0.0.1", "--master_port", "0", "--rdzv_backend", "c10d"),
            *("--rdzv_endpoint", "127.0.0.1:0", "-m", "entropycache", "eval"),
            *(*arguments, "--output", str(tmp_path / "two.json")),
        ]
    )
    both = json.loads((tmp_path / "two.json").read_text())
    assert both["settings"]["ranks"] == 2
    assert done.stdout.count("held-out:aiw") == 1, "the first rank alone reports"
    task = "held-out:aiw"
    assert without_times(both["samples"]) == without_times(alone["samples"])
    assert without_times(both["tasks"][task]) == without_times(alone["tasks"][task])
    assert not list(tmp_path.glob("two.partial*"))
