"""Short convolutions by fewer products: the transforms of Toom and Cook, which Winograd's method nests.

``m`` neighboring outputs of a sum with ``r`` taps are ``A^T ((G g) * (B^T d))`` with ``n = m + r - 1`` products: both
polynomials are evaluated at n points, multiplied there, and interpolated. The points are 0, infinity and pairs
``+p, -p``; a pair shares its even and its odd part, so that a transform takes about half the operations.

Errors grow with n. The pairs are the ones with the least error found by search over eighths; in fp32, nested over two
dimensions, beside a direct sum over 32 channels (root mean square): F(2, 3) 0.7 times, F(4, 3) 2.2 times, F(2, 5) 1.7
times. F(6, 3) is left out: 9.5 times, for a fifth fewer products.
Barabasz et al., "Error analysis and improving the accuracy of Winograd convolution for deep neural networks", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: The pairs of points by the number of products.
PAIRS: dict[int, tuple[float, ...]] = {4: (1.0,), 6: (0.625, 1.5)}


@dataclass(frozen=True)
class Toom:
    """F(m, r): ``outputs`` = m neighboring sums of ``taps`` = r products each."""

    outputs: int
    taps: int

    @property
    def inputs(self) -> int:
        """Number of neighbors that the outputs read, which is the number of multiplications."""
        return self.outputs + self.taps - 1

    @property
    def pairs(self) -> tuple[float, ...]:
        return PAIRS[self.inputs]

    @property
    def points(self) -> list[float]:
        """The finite ones, in the order of the products; infinity is the last."""
        return [0.0, *(s * p for p in self.pairs for s in (1.0, -1.0))]

    def vanishing(self, without: int | None = None) -> list[float]:
        """Coefficients, lowest first, of the polynomial in x^2 that is 0 at all pairs (but one)."""
        product = np.array([1.0])
        for k, p in enumerate(self.pairs):
            if k != without:
                product = np.convolve(product, [-p * p, 1.0])
        return [float(c) for c in product]

    @property
    def of_taps(self) -> np.ndarray:
        """G, [inputs, taps]: what the weights are multiplied with at build time."""
        points = self.points
        rows = [[p**j / np.prod([p - q for q in points if q != p]) for j in range(self.taps)] for p in points]
        return np.array([*rows, [0.0] * (self.taps - 1) + [1.0]])

    @property
    def of_inputs(self) -> np.ndarray:
        """B^T, [inputs, inputs]; the kernel computes it by pairs."""
        matrix = np.zeros((self.inputs, self.inputs))
        whole = self.vanishing()
        matrix[0, 0 : 2 * len(whole) : 2] = whole
        for k, p in enumerate(self.pairs):
            others = self.vanishing(k)
            for row, sign in ((1 + 2 * k, 1.0), (2 + 2 * k, -1.0)):
                matrix[row, 2 : 2 + 2 * len(others) : 2] = others
                matrix[row, 1 : 1 + 2 * len(others) : 2] = [sign * p * c for c in others]
        matrix[-1, 1 : 1 + 2 * len(whole) : 2] = whole
        return matrix

    @property
    def of_products(self) -> np.ndarray:
        """A^T, [outputs, inputs]; the kernel computes it by pairs."""
        matrix = np.array([[*(p**i for p in self.points), 0.0] for i in range(self.outputs)])
        matrix[-1, -1] = 1.0
        return matrix
