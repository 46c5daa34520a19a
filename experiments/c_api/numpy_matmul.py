#!/usr/bin/env python3
"""Multiplies NumPy arrays by 4-bit and float weights with Ompipe's kernels, and checks each result against NumPy.

numpy_matmul.py LIBRARY        # build/release/lib/libompipe_kernels.so
"""
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import ompipe_kernels as ok


def quantise(b, block):
    """B [k, n] as com.microsoft::MatMulNBits holds it at 4 bits (k a multiple of block), and the values that stand for it."""
    k, n = b.shape
    blocks = b.T.reshape(n, k // block, block)
    low, high = blocks.min(axis=2), blocks.max(axis=2)
    scales = ((high - low) / 15).astype(np.float32)
    zero_points = np.clip(np.round(-low / scales), 0, 15).astype(np.uint8)
    quants = np.clip(np.round(blocks / scales[..., None]) + zero_points[..., None], 0, 15).astype(np.uint8)
    values = (quants.astype(np.float32) - zero_points[..., None]) * scales[..., None]
    pairs = np.pad(zero_points, ((0, 0), (0, zero_points.shape[1] % 2)))
    arrays = {"source": quants[..., 0::2] | quants[..., 1::2] << 4, "scales": scales, "zero_points": pairs[:, 0::2] | pairs[:, 1::2] << 4}
    return arrays, values.reshape(n, k).T


def check(weight, a, values, bias, level):
    """The largest share of its error bound that an output uses: rounding of k sums, and at level 4 of each activation to 1 / 127 of its
    block's largest."""
    out = weight.multiply(a, bias)
    exact = a.astype(np.float64) @ values + bias
    bound = (np.abs(a).astype(np.float64) @ np.abs(values) + np.abs(bias)) * (len(values) + 2) * 2.0**-23
    if level == 4:
        bound += np.abs(values).sum(axis=0) * np.abs(a).max() / 254 * 1.001
    return float((np.abs(out - exact) / bound).max())


def main():
    kernels = ok.Kernels(sys.argv[1])
    random = np.random.default_rng(1)
    k, n = 512, 200
    b = random.standard_normal((k, n)).astype(np.float32)
    bias = random.standard_normal(n).astype(np.float32)
    arrays, values = quantise(b, 32)
    halves = b.astype(np.float16)
    worst = 0
    with ThreadPoolExecutor(2) as executor:
        weights = [
            (ok.Weight(kernels, executor, {"source": b}, k=k, n=n, format=ok.WEIGHT_F32), b, 0),
            (ok.Weight(kernels, executor, {"source": halves.T}, k=k, n=n, format=ok.WEIGHT_F16, trans_b=1), halves.astype(np.float64), 0),
        ]
        for level in (0, 4):
            blocks = {"format": ok.WEIGHT_NBITS, "bits": 4, "block": 32, "accuracy_level": level, "zero_points": ok.ZERO_POINTS_PACKED}
            weights.append((ok.Weight(kernels, executor, arrays, k=k, n=n, **blocks), values, level))
        for weight, exact, level in weights:
            for m in (1, 32):
                used = check(weight, random.standard_normal((m, k)).astype(np.float32), exact, bias, level)
                print(f"{weight.key()} level {level} m {m} on {weight.isa()}: {used:.3f} of the error bound")
                worst = max(worst, used)
        try:
            ok.Weight(kernels, executor, {"source": b}, k=k, n=n, format=ok.WEIGHT_F32, block=7)
            return 1
        except ok.KernelError as error:
            print(f"refused as it should be: {error}")
    return 0 if worst <= 1 else 1


sys.exit(main())
