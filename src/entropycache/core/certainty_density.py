"""Certainty density (d2Cache, arXiv 2509.23094): the decided share of a position's neighbourhood.

The module works on plain numbers. It knows neither canvases nor policies nor strategies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def certainty_density(decoded: NDArray[np.bool_], sigma: float) -> NDArray[np.float64]:
    """Density ``(n,)`` of decoded positions around each position of a region.

    ``decoded`` ``(n,)`` is true at decoded positions. It is smoothed by a Gaussian of standard
    deviation ``sigma`` (positions) whose weights sum to 1. Positions left of the region count as
    decoded. Positions right of it count as decoded once the region's last position is.

    Follows ``certainty_density`` of the released code: positions up to one region's length away
    count, while the weights are normalised over three lengths on either side.
    """
    size = len(decoded)
    signal = np.concatenate(
        (np.ones(size), decoded.astype(np.float64), np.full(size, float(decoded[-1])))
    )
    kernel = np.exp(-(np.arange(-3 * size, 3 * size, dtype=np.float64) ** 2) / (2 * sigma**2))
    # Entry d of ``kernel`` is for distance d - 3 * size. Position i of the region meets entry j of
    # the signal at distance size + i - j, from -(2 * size) + 1 to 2 * size - 1.
    # By FFT, because a direct sum takes size ** 2 products. Zeros up to a power of two keep the
    # circular convolution from wrapping around.
    length = 1 << (len(signal) + 4 * size - 1).bit_length()
    near = kernel[size + 1 : 5 * size]  # distances -(2 * size) + 1 … 2 * size - 1
    product = np.fft.irfft(np.fft.rfft(signal, length) * np.fft.rfft(near, length), length)
    first = size + 2 * size - 1
    density: NDArray[np.float64] = product[first : first + size] / kernel.sum()
    return density
