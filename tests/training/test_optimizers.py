"""Muon: steps along the orthogonal factor, as the library's own version does."""

from __future__ import annotations

import torch

from entropycache.training.optimizers import Muon, orthogonal


def test_muon_moves_along_the_orthogonal_factor_of_the_momentum():
    generator = torch.Generator().manual_seed(0)
    for shape in ((6, 6), (4, 12), (12, 4)):
        matrix = torch.randn(shape, generator=generator)
        u, _, v = torch.linalg.svd(matrix, full_matrices=False)
        close = orthogonal(matrix, torch.float32)
        singular = torch.linalg.svdvals(close)
        assert singular.min() > 0.6 and singular.max() < 1.3
        assert torch.cosine_similarity(close.flatten(), (u @ v).flatten(), dim=0) > 0.97
        parameter = torch.nn.Parameter(torch.zeros(shape))
        optimizer = Muon([parameter], lr=0.5, weight_decay=0.0)
        parameter.grad = matrix.clone()
        optimizer.step()
        expected = -0.5 * 0.2 * max(shape) ** 0.5 * close
        torch.testing.assert_close(parameter.detach(), expected, atol=1e-5, rtol=1e-4)


def test_muon_follows_the_library_version_where_that_can_run():
    theirs, ours = (torch.nn.Parameter(torch.ones(8, 24)) for _ in range(2))
    options = {"lr": 0.1, "weight_decay": 0.1}
    reference = torch.optim.Muon([theirs], adjust_lr_fn="match_rms_adamw", **options)
    mine = Muon([ours], compute=torch.bfloat16, **options)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        gradient = torch.randn(8, 24, generator=generator)
        for parameter, optimizer in ((theirs, reference), (ours, mine)):
            parameter.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, atol=5e-3, rtol=0)
