"""Certainty density (d2Cache, arXiv 2509.23094): how much of a position's neighbourhood is decided.

Plain numbers over the generated region; it knows neither canvases nor policies nor strategies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def certainty_density(decoded: NDArray[np.bool_], sigma: float) -> NDArray[np.float64]:
    """A Gaussian of width ``sigma`` positions over the decoded positions of a region ``(n,)``.

    What lies left of the region counts as decoded, what lies right of it as soon as the region's
    last position is. The kernel reaches one region's length beyond it on either side and sums to 1,
    as in the released code (``certainty_density``), whose FFT this convolution replaces.
    """
    size = len(decoded)
    signal = np.concatenate(
        (np.ones(size), decoded.astype(np.float64), np.full(size, float(decoded[-1])))
    )
    kernel = np.exp(-(np.arange(-3 * size, 3 * size, dtype=np.float64) ** 2) / (2 * sigma**2))
    # Entry d of ``kernel`` belongs to distance d - 3 * size; a region's position i meets signal j
    # at distance size + i - j, from -(2 * size) + 1 to 2 * size - 1.
    length = 1 << (len(signal) + 4 * size - 1).bit_length()
    near = kernel[size + 1 : 5 * size]  # distances -(2 * size) + 1 … 2 * size - 1
    product = np.fft.irfft(np.fft.rfft(signal, length) * np.fft.rfft(near, length), length)
    first = size + 2 * size - 1
    density: NDArray[np.float64] = product[first : first + size] / kernel.sum()
    return density
