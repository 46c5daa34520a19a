"""The C interface of the kernels for Python: ctypes declarations, and a weight that packs and multiplies NumPy arrays.

All memory is NumPy's. ctypes releases the interpreter's lock during a call, so threads of a ThreadPoolExecutor run tiles at once.
"""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p, sizeof

import numpy as np

WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_NBITS = 1, 2, 3, 4
ZERO_POINTS_NONE, ZERO_POINTS_PACKED = 0, 1
SCALES_F32, SCALES_F16 = 0, 1
ALIGNMENT = 64


class Size(ctypes.Structure):
    _fields_ = [("bytes", c_size_t), ("alignment", c_size_t)]


class MatMulWeight(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("k", c_int64), ("n", c_int64)] + [
        (name, c_int32) for name in ("format", "isa", "trans_b", "bits", "block", "accuracy_level", "zero_points", "scales")]


class MatMulSizes(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t)] + [
        (name, c_int64) for name in ("source_bytes", "range_unit_bytes", "scales_bytes", "zero_points_bytes", "packed_bytes")]


class MatMulSource(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("begin", c_int64), ("end", c_int64), ("range", c_void_p), ("scales", c_void_p),
                ("zero_points", c_void_p)]


class MatMulProduct(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("layout", c_void_p), ("packed", c_void_p), ("m", c_int64), ("a", c_void_p),
                ("lda", c_int64), ("out", c_void_p), ("ldo", c_int64), ("c", c_void_p), ("c_row_stride", c_int64),
                ("c_column_stride", c_int64), ("alpha", c_float), ("beta", c_float), ("elements", c_int32), ("unused", c_int32),
                ("shared_scratch", c_void_p), ("shared_scratch_bytes", c_int64)]


# Result and arguments of each function that is used here.
FUNCTIONS = {
    "ompipe_status_text": (c_char_p, [c_int32]),
    "ompipe_isa_name": (c_char_p, [c_int32]),
    "ompipe_matmul_layout_size": (Size, []),
    "ompipe_matmul_layout_init": (c_int32, [c_void_p, c_size_t, POINTER(MatMulWeight), POINTER(c_char_p)]),
    "ompipe_matmul_layout_sizes": (c_int32, [c_void_p, POINTER(MatMulSizes)]),
    "ompipe_matmul_layout_isa": (c_int32, [c_void_p]),
    "ompipe_matmul_layout_key": (c_int32, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "ompipe_matmul_pack": (c_int32, [c_void_p, POINTER(MatMulSource), c_void_p, c_int64, POINTER(c_char_p)]),
    "ompipe_matmul_scratch": (c_int32, [POINTER(MatMulProduct), POINTER(c_int64), POINTER(c_int64)]),
    "ompipe_call_size": (Size, []),
    "ompipe_matmul_call_init": (c_int32, [c_void_p, c_size_t, POINTER(MatMulProduct), POINTER(c_char_p)]),
    "ompipe_call_phases": (c_int32, [c_void_p]),
    "ompipe_call_tiles": (c_int64, [c_void_p, c_int32]),
    "ompipe_call_predicted_ns": (c_double, [c_void_p]),
    "ompipe_call_run_tile": (c_int32, [c_void_p, c_int32, c_int64, c_void_p, c_int64]),
}


class KernelError(Exception):
    pass


def aligned(size, alignment=ALIGNMENT):
    """An array of bytes that starts at a multiple of `alignment`."""
    whole = np.empty(size + alignment, np.uint8)
    begin = -whole.ctypes.data % alignment
    return whole[begin:begin + size]


class Kernels:
    """The loaded library; functions without their prefix, whose failures raise KernelError."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name):
        return getattr(self.library, "ompipe_" + name)

    def demand(self, status, reason=None):
        if status != 0:
            text = self.status_text(status).decode()
            raise KernelError(f"{text}: {reason.value.decode()}" if reason and reason.value else text)

    def checked(self, function, *arguments):
        """Calls a function whose last argument is the reason."""
        reason = c_char_p()
        self.demand(getattr(self, function)(*arguments, byref(reason)), reason)


class Weight:
    """One constant B of [k, n]. `arrays`: its bytes as they lie in a file, by name: source, and scales and zero_points if there are any."""

    def __init__(self, kernels, executor, arrays, **description):
        self.kernels, self.executor = kernels, executor
        self.k, self.n = description["k"], description["n"]
        size = kernels.matmul_layout_size()
        self.layout = aligned(size.bytes, size.alignment)
        weight = MatMulWeight(struct_bytes=sizeof(MatMulWeight), **description)
        kernels.checked("matmul_layout_init", self.layout.ctypes.data, size.bytes, byref(weight))
        self.sizes = MatMulSizes(struct_bytes=sizeof(MatMulSizes))
        kernels.demand(kernels.matmul_layout_sizes(self.layout.ctypes.data, byref(self.sizes)))
        self.packed = aligned(self.sizes.packed_bytes)
        self._pack(arrays)

    def key(self):
        text = ctypes.create_string_buffer(128)
        self.kernels.demand(self.kernels.matmul_layout_key(self.layout.ctypes.data, text, 128, None))
        return text.value.decode()

    def isa(self):
        return self.kernels.isa_name(self.kernels.matmul_layout_isa(self.layout.ctypes.data)).decode()

    def _pack(self, arrays):
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        for name in ("source", "scales", "zero_points"):
            size, expected = arrays[name].nbytes if name in arrays else 0, getattr(self.sizes, name + "_bytes")
            if size != expected:
                raise KernelError(f"{name}: {size} bytes, {expected} expected")

        def address(name):
            return arrays[name].ctypes.data if name in arrays else None

        def pack(begin):
            part = MatMulSource(sizeof(MatMulSource), begin, min(begin + step, self.sizes.source_bytes), address("source") + begin,
                                address("scales"), address("zero_points"))
            self.kernels.checked("matmul_pack", self.layout.ctypes.data, byref(part), self.packed.ctypes.data, self.packed.nbytes)

        # Ranges of about 256 KiB; any cut gives the same packed bytes.
        unit = self.sizes.range_unit_bytes
        step = max(1, (256 << 10) // unit) * unit
        list(self.executor.map(pack, range(0, self.sizes.source_bytes, step)))

    def multiply(self, a, bias=None):
        """a @ B (+ bias) in float32, its tiles spread over the executor's threads."""
        a = np.ascontiguousarray(a, np.float32)
        out = np.empty((len(a), self.n), np.float32)
        product = MatMulProduct(struct_bytes=sizeof(MatMulProduct), layout=self.layout.ctypes.data, packed=self.packed.ctypes.data,
                                m=len(a), a=a.ctypes.data, lda=self.k, out=out.ctypes.data, ldo=self.n, alpha=1, beta=1)
        shared_bytes, tile_bytes = c_int64(), c_int64()
        self.kernels.demand(self.kernels.matmul_scratch(byref(product), byref(shared_bytes), byref(tile_bytes)))
        shared = aligned(shared_bytes.value)
        product.shared_scratch, product.shared_scratch_bytes = shared.ctypes.data, shared_bytes.value
        if bias is not None:
            bias = np.ascontiguousarray(bias, np.float32)
            product.c, product.c_column_stride = bias.ctypes.data, 1
        size = self.kernels.call_size()
        call = aligned(size.bytes, size.alignment)
        self.kernels.checked("matmul_call_init", call.ctypes.data, size.bytes, byref(product))

        def run(phase, tile):
            scratch = aligned(tile_bytes.value)
            self.kernels.demand(self.kernels.call_run_tile(call.ctypes.data, phase, tile, scratch.ctypes.data, scratch.nbytes))

        for phase in range(self.kernels.call_phases(call.ctypes.data)):
            tiles = range(self.kernels.call_tiles(call.ctypes.data, phase))
            list(self.executor.map(run, [phase] * len(tiles), tiles))
        return out
