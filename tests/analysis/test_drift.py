"""Drift: measured between exact passes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from entropycache.analysis.drift import transitions
from tests.analysis.tools import ONE
from tests.conftest import FAMILIES


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
