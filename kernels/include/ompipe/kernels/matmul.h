// Matrix products with constant, prepacked weights: MatMulNBits, and MatMul/Gemm with float weights.
//
// Life of a weight: describe it (MatMulSpec), learn its packed size (make_layout), pack it in ranges while it is read
// (pack_range), multiply by it (matmul_call). Nothing here but layout_key allocates; nothing locks, but the
// first question for this CPU's caches; nothing starts threads or throws.
//
// Bits. With float weights, and with nbits at accuracy_level 0 (w = (q - zero point) * scale; the difference, exact
// unless the zero point has a fraction, and the product are each rounded once), every output is one chain of fused
// multiply-adds in rising k from 0. At accuracy_level 4 rows of A are quantised to int8 in blocks of min(block, 32)
// elements (s = max|a| / 127, round to nearest even); within such a block the dot product is an exact integer, and over
// the blocks each output is one chain fma(d * s, scale, sum), where d is float(dot of q - zero point), or with a
// fractional zero point fma(zero point, -float(sum of a), float(dot of q)). All ISAs give the same bits, but for a
// NaN's sign and payload.
//
// Source: ONNX MatMul and Gemm, com.microsoft::MatMulNBits; the micro-kernel and its packed panels as Goto and van de
// Geijn, "Anatomy of High-Performance Matrix Multiplication", TOMS 34(3), 2008.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ompipe/kernels/element_type.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tiles.h"
#include "ompipe/kernels/tuning.h"

namespace ompipe::kernels {

// How B lies in the model's file.
enum class WeightFormat {
  nbits,  // uint8 [N, ceil(K / block), block * bits / 8], low bits first (com.microsoft::MatMulNBits)
  f32,    // little-endian elements, [K, N], or [N, K] if trans_b
  f16,
  bf16,
  u8,  // bytes, [K, N]; packed here, multiplied by matmul_integer.h
  s8,
};

// The type of MatMulNBits' scales in the file. They are kept as they are, unless half_scales.
enum class ScaleType { f32, f16 };

// MatMulNBits' zero points, one a column and block of k. none: 2^(bits - 1).
enum class ZeroPoints {
  none,
  packed,  // uint8 [N, ceil(blocks * bits / 8)], low bits first
  f32,     // [N, blocks], of the activations' type, with fractions
  f16,
};

// One constant operand B and how it will be used. trans_b belongs to the float formats, what follows it to nbits.
struct MatMulSpec {
  WeightFormat format = WeightFormat::f32;
  int64_t k = 0, n = 0;
  bool trans_b = false;
  int bits = 4;            // of an element: 2, 4 or 8
  int block = 32;          // 16, 32, 64, 128 or 256 elements of k share a scale
  int accuracy_level = 0;  // 0 or 4
  ZeroPoints zero_points = ZeroPoints::none;
  ScaleType scale_type = ScaleType::f32;
  bool half_scales = false;  // packs float32 scales as float16; only if scales_fit_half, else they are rounded
};

// Whether each of `count` float32 scales is a float16 (a NaN is none). Any thread.
bool scales_fit_half(const float* scales, int64_t count);

// Null if the kernels can pack and multiply this, else a static text that says what they can't.
const char* unsupported_reason(const MatMulSpec& spec);

// A supported spec, the ISA that packs and multiplies, and the sizes that follow. The packed bytes are the same for
// every ISA and accuracy level.
//
// Packed floats: panels of 16 columns, k-major: element (k, n) is float 16 * (k + K * (n / 16)) + n % 16.
// Packed bytes: groups of 8 columns; in a group units of 32 elements of k, the last one padded with zeros, as vectors
// of 32 bytes: byte 4 * column + i of vector v is element k = 4 * v + i, plus 128 if the format is s8. Packed nbits:
// groups of 8 columns; in a group one record a block of k: 8 scales, then 8 zero points if there are any (packed ones
// widened to a byte, others as they are in the file), then the elements, in units of U = min(block, 32) elements of k
// and vectors of 32 bytes. Byte 4 * column + i of vector v holds k = p * U * bits / 8 + 4 * v + i in its bits from p *
// bits, for p = 0 .. 8 / bits - 1. So one load serves 8 columns.
struct PackedLayout {
  MatMulSpec spec;
  Isa isa = Isa::scalar;
  Tuning tuning;
  int64_t source_bytes = 0;       // of B alone, as in the file
  int64_t scales_bytes = 0;       // of the scales in the file; 0 for float formats
  int64_t zero_points_bytes = 0;  // of the zero points in the file; 0 if there are none
  int64_t packed_bytes = 0;       // to be allocated at kAlignmentBytes
};

// Nothing if unsupported_reason(spec), tuning_error(tuning) or if this CPU lacks `isa`.
std::optional<PackedLayout> make_layout(const MatMulSpec& spec, Isa isa, const Tuning& tuning = tuning_of_this_cpu());

// Names all that decides the packed bytes of given source bytes, and nothing else: fit to be persisted and compared.
std::string layout_key(const PackedLayout& layout);

// The same without allocation. What doesn't fit is dropped; the longest key has some 60 characters.
struct KeyText {
  std::array<char, 127> chars;
  size_t size = 0;

  std::string_view view() const { return {chars.data(), size}; }
  KeyText& operator<<(std::string_view part);
  KeyText& operator<<(int64_t number);
};
KeyText layout_key_text(const PackedLayout& layout);

// The bytes that a range of B is packed from. Any alignment; read only during the call.
struct PackSources {
  const std::byte* range = nullptr;        // the byte of B at byte_begin
  const std::byte* scales = nullptr;       // all scales; null for float formats
  const std::byte* zero_points = nullptr;  // all zero points; null if there are none
};

// Packs bytes [byte_begin, byte_end) of B, with the scales and zero points of its blocks, into their final place in
// `packed` (packed_bytes long, aligned). Ranges may be cut anywhere between whole elements (nbits: a column's blocks
// of k); ranges that together hold each byte of B once give the same packed bytes however they are cut, in any order,
// at once on several threads: each writes its own bytes only. Columns that pad the last panel are zeroed by the range
// that holds B's last byte.
void pack_range(const PackedLayout& layout, const PackSources& sources, int64_t byte_begin, int64_t byte_end,
                std::byte* packed);

// One product: out[m, n] = alpha * (A * B)[m, n] + beta * c[m, n]. All memory is the caller's and outlives the call.
//
// `type` is that of a, c and out: f32, or f16. Products of f16 are computed as those of f32 and rounded to nearest even
// when they are written.
struct MatMulArgs {
  ElementType type = ElementType::f32;
  const PackedLayout* layout = nullptr;
  const std::byte* packed = nullptr;
  int64_t m = 0;
  const void* a = nullptr;  // [m, K], rows `lda` elements apart; aligned as an element
  int64_t lda = 0;
  void* out = nullptr;  // [m, N], rows `ldc` elements apart; must not overlap the inputs
  int64_t ldc = 0;
  // The bias of MatMulNBits (strides 0, 1) or Gemm's C with its broadcasting strides, in elements. Null: none.
  const void* c = nullptr;
  int64_t c_row_stride = 0, c_column_stride = 1;
  float alpha = 1, beta = 1;
  std::byte* shared_scratch = nullptr;  // shared_scratch_bytes, aligned; one for all tiles of the call
};

// Bytes that all tiles of one call share (accuracy_level 4: the quantised A; else, if `type` is f16 or the rows are
// more than a few, A as floats). Never falls as `m` rises. 0 is possible.
int64_t shared_scratch_bytes(const PackedLayout& layout, int64_t m, ElementType type = ElementType::f32);

// The call for `args`, which outlives it. Not of formats u8 and s8. Until a tile runs only `layout`, `type` and `m` are
// read, so a plan can ask for sizes. Its tile_scratch_bytes never falls as m rises, so that of the largest m serves
// all.
TiledCall matmul_call(const MatMulArgs& args);

}  // namespace ompipe::kernels
