// The C interface of Ompipe's kernels: matrix products with constant weights that are packed once, computed as tiles
// that the caller runs on threads of its own. Plain C11, and C++. Since version 1.1 also products on bytes that aren't
// packed, exact products of int8, DynamicQuantizeLinear, and tile sizes.
//
// A weight's life: describe it (ompipe_matmul_weight), make its layout in memory of yours, ask for sizes, pack its
// bytes as they arrive, then describe products by it and run their tiles:
//
//   ompipe_matmul_layout_init -> ompipe_matmul_layout_sizes -> ompipe_matmul_pack (by ranges)
//   ompipe_matmul_scratch -> ompipe_matmul_call_init -> ompipe_call_tiles -> ompipe_call_run_tile
//
// Rules that hold for every function. All memory is the caller's: nothing is allocated, kept or freed here, no thread
// is started, no file read, and there is no state but what pointers lead to (the CPU is asked once what it has). So any
// thread may call any function at any time, as long as nobody writes what it reads. No exception leaves a function.
// Sizes are in bytes, strides in elements, counts and sizes at least 0. The result has the same bits for every
// instruction set, order of tiles and number of threads, but for a NaN's sign and payload.
//
// Errors. A function that can fail returns an ompipe_status, OMPIPE_OK (0) or what was wrong, and has then written
// nothing but `*reason`. `reason` may be null; else it receives null, or a static text that says what was expected.
//
// Versions. A change of the major version breaks programs, and is part of the shared library's name. In a minor version
// structures grow at their end, and zero in a new field means what was before: set struct_bytes to sizeof the
// structure, and the rest to zero. A library that is older than the header refuses what it doesn't know:
// OMPIPE_UNKNOWN_FIELD.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OMPIPE_KERNELS_VERSION_MAJOR 1
#define OMPIPE_KERNELS_VERSION_MINOR 1

#if defined(__GNUC__)
#define OMPIPE_KERNELS_API __attribute__((visibility("default")))
#else
#define OMPIPE_KERNELS_API
#endif

#if defined(__cplusplus) && __cplusplus >= 201103L
#define OMPIPE_NOEXCEPT noexcept
#else
#define OMPIPE_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Of the library that runs: major * 65536 + minor.
OMPIPE_KERNELS_API uint32_t ompipe_kernels_version(void) OMPIPE_NOEXCEPT;

// --- errors ---

typedef int32_t ompipe_status;
enum {
  OMPIPE_OK = 0,
  OMPIPE_INVALID_ARGUMENT = 1,  // null, out of range, or two arguments that don't fit together
  OMPIPE_UNKNOWN_FIELD = 2,     // struct_bytes is no version's, or a field behind the last one known isn't zero
  OMPIPE_UNSUPPORTED = 3,       // described well, but no kernel takes it
  OMPIPE_ISA_UNAVAILABLE = 4,   // this CPU lacks the instruction set asked for
  OMPIPE_TOO_SMALL = 5,         // memory given is smaller than was asked for
  OMPIPE_MISALIGNED = 6         // memory given doesn't start at a multiple of its alignment
};

// A static text of a few words; "unknown status" for other values.
OMPIPE_KERNELS_API const char* ompipe_status_text(ompipe_status status) OMPIPE_NOEXCEPT;

// --- memory ---

// What to allocate for something opaque. Ask at run time: it may change with the library.
typedef struct ompipe_size {
  size_t bytes;
  size_t alignment;
} ompipe_size;

// Packed weights and scratch start at multiples of this.
#define OMPIPE_ALIGNMENT 64

// --- instruction sets ---

// Those of this version are 1 to the last one that has a name; that says nothing about this CPU.
typedef int32_t ompipe_isa;
enum {
  OMPIPE_ISA_BEST = 0,         // the fastest that this CPU has
  OMPIPE_ISA_SCALAR = 1,       // the baseline of the target
  OMPIPE_ISA_AVX2 = 2,         // AVX2, FMA and F16C
  OMPIPE_ISA_AVX_VNNI = 3,     // AVX2 and AVX-VNNI
  OMPIPE_ISA_AVX512 = 4,       // AVX2 and AVX-512 F, BW, VL and DQ
  OMPIPE_ISA_AVX512_VNNI = 5,  // AVX512 and AVX512-VNNI
  OMPIPE_ISA_NEON = 6,         // Advanced SIMD of aarch64
  OMPIPE_ISA_NEON_DOTPROD = 7  // NEON and the dot products of Armv8.2
};

// 1 if this CPU and its operating system run it, else 0; 0 for values that have no name.
OMPIPE_KERNELS_API int32_t ompipe_isa_available(ompipe_isa isa) OMPIPE_NOEXCEPT;

// What OMPIPE_ISA_BEST stands for.
OMPIPE_KERNELS_API ompipe_isa ompipe_isa_best(void) OMPIPE_NOEXCEPT;

// "scalar", "avx2" and so on; null for OMPIPE_ISA_BEST and for unknown values.
OMPIPE_KERNELS_API const char* ompipe_isa_name(ompipe_isa isa) OMPIPE_NOEXCEPT;

// The inverse of ompipe_isa_name. OMPIPE_INVALID_ARGUMENT for a name that isn't there.
OMPIPE_KERNELS_API ompipe_status ompipe_isa_parse(const char* name, ompipe_isa* isa) OMPIPE_NOEXCEPT;

// --- tile sizes (1.1) ---

// They decide how fast products are, never their bits or the packed bytes. A value, as a layout is.
typedef struct ompipe_tuning ompipe_tuning;

OMPIPE_KERNELS_API ompipe_size ompipe_tuning_size(void) OMPIPE_NOEXCEPT;

// Makes this CPU's profile in `tuning`, memory of `tuning_bytes`.
OMPIPE_KERNELS_API ompipe_status ompipe_tuning_init(ompipe_tuning* tuning, size_t tuning_bytes,
                                                    const char** reason) OMPIPE_NOEXCEPT;

// The names of its fields, "tile-us" and so on, from index 0; null where there are no more.
OMPIPE_KERNELS_API const char* ompipe_tuning_name(int32_t index) OMPIPE_NOEXCEPT;

// Reads and sets the field of that name. OMPIPE_INVALID_ARGUMENT for an unknown name, and for a value that the field
// can't have; `reason` says what it can.
OMPIPE_KERNELS_API ompipe_status ompipe_tuning_get(const ompipe_tuning* tuning, const char* name, int64_t* value,
                                                   const char** reason) OMPIPE_NOEXCEPT;
OMPIPE_KERNELS_API ompipe_status ompipe_tuning_set(ompipe_tuning* tuning, const char* name, int64_t value,
                                                   const char** reason) OMPIPE_NOEXCEPT;

// --- the weight of a matrix product ---

// How B's bytes lie where they come from, little-endian.
enum {
  OMPIPE_WEIGHT_F32 = 1,  // elements [K, N], or [N, K] if trans_b
  OMPIPE_WEIGHT_F16 = 2,
  OMPIPE_WEIGHT_BF16 = 3,
  OMPIPE_WEIGHT_NBITS = 4,  // uint8 [N, ceil(K / block), block * bits / 8], low bits first: com.microsoft::MatMulNBits
  OMPIPE_WEIGHT_U8 = 5,     // bytes [K, N], of the exact products of int8 (1.1)
  OMPIPE_WEIGHT_S8 = 6
};

// Zero points of OMPIPE_WEIGHT_NBITS, one a column and block of k.
enum {
  OMPIPE_ZERO_POINTS_NONE = 0,    // 2^(bits - 1)
  OMPIPE_ZERO_POINTS_PACKED = 1,  // uint8 [N, ceil(ceil(K / block) * bits / 8)], low bits first
  OMPIPE_ZERO_POINTS_F32 = 2,     // [N, ceil(K / block)], with fractions
  OMPIPE_ZERO_POINTS_F16 = 3
};

// Scales of OMPIPE_WEIGHT_NBITS: [N, ceil(K / block)].
enum {
  OMPIPE_SCALES_F32 = 0,
  OMPIPE_SCALES_F16 = 1,
  OMPIPE_SCALES_F32_AS_F16 = 2  // float32 that is packed as float16; rounded unless ompipe_scales_fit_f16
};

// 1 if each of `count` float32 scales is a float16, so that OMPIPE_SCALES_F32_AS_F16 loses nothing; else 0, and for
// null.
OMPIPE_KERNELS_API int32_t ompipe_scales_fit_f16(const float* scales, int64_t count) OMPIPE_NOEXCEPT;

// One constant operand B of [K, N], and how it will be used. Fields that the format doesn't use are zero.
typedef struct ompipe_matmul_weight {
  size_t struct_bytes;
  int64_t k, n;
  int32_t format;               // OMPIPE_WEIGHT_...
  ompipe_isa isa;               // that packs and multiplies
  int32_t trans_b;              // float formats: 0 or 1
  int32_t bits;                 // the rest is of OMPIPE_WEIGHT_NBITS: 2, 4 or 8
  int32_t block;                // 16, 32, 64, 128 or 256 elements of k share a scale
  int32_t accuracy_level;       // 0: float32 activations; 4: int8, quantised in blocks of min(block, 32)
  int32_t zero_points;          // OMPIPE_ZERO_POINTS_...
  int32_t scales;               // OMPIPE_SCALES_...
  const ompipe_tuning* tuning;  // (1.1) not of U8 and S8; copied into the layout. Null: this CPU's
} ompipe_matmul_weight;

// A weight with all that follows from it. A value: it may be copied to another place of the same size and alignment.
typedef struct ompipe_matmul_layout ompipe_matmul_layout;

OMPIPE_KERNELS_API ompipe_size ompipe_matmul_layout_size(void) OMPIPE_NOEXCEPT;

// Makes the layout in `layout`, memory of `layout_bytes`. OMPIPE_UNSUPPORTED if no kernel takes this weight.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_layout_init(ompipe_matmul_layout* layout, size_t layout_bytes,
                                                           const ompipe_matmul_weight* weight,
                                                           const char** reason) OMPIPE_NOEXCEPT;

typedef struct ompipe_matmul_sizes {
  size_t struct_bytes;
  int64_t source_bytes;       // of B alone, before packing
  int64_t range_unit_bytes;   // ranges of B begin and end at multiples of this
  int64_t scales_bytes;       // 0 for float formats
  int64_t zero_points_bytes;  // 0 if there are none
  int64_t packed_bytes;       // to be allocated at OMPIPE_ALIGNMENT
} ompipe_matmul_sizes;

// Writes what the weight takes, as many fields as sizes->struct_bytes says.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_layout_sizes(const ompipe_matmul_layout* layout,
                                                            ompipe_matmul_sizes* sizes) OMPIPE_NOEXCEPT;

// The instruction set that packs and multiplies, never OMPIPE_ISA_BEST; that for what is no layout.
OMPIPE_KERNELS_API ompipe_isa ompipe_matmul_layout_isa(const ompipe_matmul_layout* layout) OMPIPE_NOEXCEPT;

// Writes the text, with its zero, that names all that decides the packed bytes of given source bytes, and nothing else:
// fit to be stored beside packed bytes and compared. `*needed_bytes` (may be null) receives its size, zero included,
// also when `text_bytes` is less: OMPIPE_TOO_SMALL. 128 bytes are enough for every key of this version.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_layout_key(const ompipe_matmul_layout* layout, char* text,
                                                          size_t text_bytes, size_t* needed_bytes) OMPIPE_NOEXCEPT;

// Bytes that a range of B is packed from. Any alignment; ompipe_matmul_pack reads them while it runs.
typedef struct ompipe_matmul_source {
  size_t struct_bytes;
  int64_t begin, end;       // the range: bytes of B
  const void* range;        // the byte of B at `begin`
  const void* scales;       // all of them; null for float formats
  const void* zero_points;  // all of them; null if there are none
} ompipe_matmul_source;

// Packs a range into its final place in `packed`, which is packed_bytes long. Ranges that together hold each byte of B
// once give the same packed bytes however they are cut, in any order, at once on several threads: each writes bytes
// that no other writes. Columns that pad the last panel are written by the range that holds B's last byte.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_pack(const ompipe_matmul_layout* layout,
                                                    const ompipe_matmul_source* source, void* packed,
                                                    int64_t packed_bytes, const char** reason) OMPIPE_NOEXCEPT;

// --- products ---

// The type of a, c and out. Products of float16 are computed as those of float32 and rounded when they are written.
enum { OMPIPE_ELEMENTS_F32 = 0, OMPIPE_ELEMENTS_F16 = 1 };

// Where a product finds B; the result has the same bits. Portable: a first product need not wait for a packed weight,
// nor for memory for one; its tiles read `source`, or pack strips of it that stay in a cache. Fused: they also write
// the strips to `pack_into`, and after the last tile, with m = 0 too, it holds what ompipe_matmul_pack makes of all of
// B.
enum { OMPIPE_PRODUCT_PACKED = 0, OMPIPE_PRODUCT_PORTABLE = 1, OMPIPE_PRODUCT_FUSED = 2 };

// One product: out[m, n] = alpha * (A * B)[m, n] + beta * c[m, n]. Start from ompipe_matmul_product_default. All that
// it points to outlives the call that is made of it, but for the structure `source`, and `out` overlaps none of it.
typedef struct ompipe_matmul_product {
  size_t struct_bytes;
  const ompipe_matmul_layout* layout;  // not of OMPIPE_WEIGHT_U8 and S8
  const void* packed;                  // OMPIPE_PRODUCT_PACKED: sizes.packed_bytes; else null
  int64_t m;                           // 0 is possible: a and out may then be null
  const void* a;                       // [m, K], rows `lda` elements apart
  int64_t lda;
  void* out;  // [m, N], rows `ldo` elements apart
  int64_t ldo;
  const void* c;  // a bias (strides 0, 1) or Gemm's C with its broadcasting strides; null: none
  int64_t c_row_stride, c_column_stride;
  float alpha, beta;
  int32_t elements;      // OMPIPE_ELEMENTS_...
  int32_t way;           // OMPIPE_PRODUCT_... (1.0: 0)
  void* shared_scratch;  // for all tiles of this product, at OMPIPE_ALIGNMENT; of no other product that runs meanwhile
  int64_t shared_scratch_bytes;
  const ompipe_matmul_source* source;  // (1.1) portable and fused: the whole of B, from 0 to source_bytes; else null
  void* pack_into;                     // (1.1) fused: sizes.packed_bytes, at OMPIPE_ALIGNMENT; else null
  int64_t pack_into_bytes;
} ompipe_matmul_product;

// All zero, but alpha and beta 1 and c a bias of N elements.
static inline ompipe_matmul_product ompipe_matmul_product_default(void) {
  ompipe_matmul_product product = {
      sizeof(ompipe_matmul_product), NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 1, 1, 1, 0, 0, NULL, 0, NULL, NULL, 0};
  return product;
}

// Scratch that a product needs: shared by all its tiles, and of each tile that runs. Neither falls as m rises. Reads
// `layout`, `elements`, `way` and `m` of the product only, so that it can be asked before there is memory.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_scratch(const ompipe_matmul_product* product, int64_t* shared_bytes,
                                                       int64_t* tile_bytes) OMPIPE_NOEXCEPT;

// --- calls ---

// Work bound to its arguments, in phases of independent tiles. Phases run one after the other: every tile of a phase
// has returned, and its writes are visible, before the first of the next starts. The tiles of a phase run in any order,
// on any threads, at once, each exactly once. How the work is cut depends on shapes, way, instruction set and tile
// sizes, never on threads or time. Made at an address, it stays there: a copy is refused.
typedef struct ompipe_call ompipe_call;

OMPIPE_KERNELS_API ompipe_size ompipe_call_size(void) OMPIPE_NOEXCEPT;

// Makes the call for `product`, whose fields are copied, in `call`, memory of `call_bytes`. Cheap: one for each
// product.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_call_init(ompipe_call* call, size_t call_bytes,
                                                         const ompipe_matmul_product* product,
                                                         const char** reason) OMPIPE_NOEXCEPT;

// Of a call: the number of phases, of tiles in a phase (0 is possible), bytes of scratch that each running tile needs,
// and roughly the nanoseconds that one thread takes. All are 0 for what is no call and for phases that don't exist.
OMPIPE_KERNELS_API int32_t ompipe_call_phases(const ompipe_call* call) OMPIPE_NOEXCEPT;
OMPIPE_KERNELS_API int64_t ompipe_call_tiles(const ompipe_call* call, int32_t phase) OMPIPE_NOEXCEPT;
OMPIPE_KERNELS_API int64_t ompipe_call_tile_scratch_bytes(const ompipe_call* call) OMPIPE_NOEXCEPT;
OMPIPE_KERNELS_API double ompipe_call_predicted_ns(const ompipe_call* call) OMPIPE_NOEXCEPT;

// Runs one tile. `scratch`: ompipe_call_tile_scratch_bytes at OMPIPE_ALIGNMENT that no other tile running now uses; its
// content means nothing between tiles.
OMPIPE_KERNELS_API ompipe_status ompipe_call_run_tile(const ompipe_call* call, int32_t phase, int64_t tile,
                                                      void* scratch, int64_t scratch_bytes) OMPIPE_NOEXCEPT;

// Runs every tile of every phase on the calling thread, with scratch as for one tile.
OMPIPE_KERNELS_API ompipe_status ompipe_call_run(const ompipe_call* call, void* scratch,
                                                 int64_t scratch_bytes) OMPIPE_NOEXCEPT;

// --- exact products of int8 (1.1) ---

// ONNX MatMulInteger: out[m, n] = sum over k of (a[m, k] - a's zero point) * (B[k, n] - n's zero point), modulo 2^32.
// All that it points to outlives the call, and `out` overlaps none of it; zero points are read by the tiles, so that an
// earlier call may write them.
typedef struct ompipe_matmul_integer_product {
  size_t struct_bytes;
  const ompipe_matmul_layout* layout;  // of OMPIPE_WEIGHT_U8 or S8
  const void* packed;                  // sizes.packed_bytes
  int64_t m;                           // 0 is possible: a and out may then be null
  const void* a;                       // [m, K] bytes, rows `lda` apart
  int64_t lda;
  int32_t* out;  // [m, N], rows `ldo` elements apart
  int64_t ldo;
  const void* a_zero_point;     // one byte of a's type; null: 0
  const void* b_zero_points;    // bytes of B's type; null: 0
  int32_t b_zero_point_stride;  // 1: one of each column; 0: one of all
  int32_t a_signed;             // 1: a is int8; 0: uint8
  void* shared_scratch;         // as of ompipe_matmul_product
  int64_t shared_scratch_bytes;
} ompipe_matmul_integer_product;

// As ompipe_matmul_scratch. Reads `layout` and `m` only.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_integer_scratch(const ompipe_matmul_integer_product* product,
                                                               int64_t* shared_bytes,
                                                               int64_t* tile_bytes) OMPIPE_NOEXCEPT;

// As ompipe_matmul_call_init.
OMPIPE_KERNELS_API ompipe_status ompipe_matmul_integer_call_init(ompipe_call* call, size_t call_bytes,
                                                                 const ompipe_matmul_integer_product* product,
                                                                 const char** reason) OMPIPE_NOEXCEPT;

// ONNX DynamicQuantizeLinear: scale = (max(x, 0) - min(x, 0)) / 255, 1 if that is 0; zero_point = -min / scale;
// y[i] = x[i] / scale + zero_point; both rounded to nearest even and clamped to 0 .. 255. A NaN counts for neither
// bound, and gives 0. Infinity, or a range above the largest float, gives an infinite scale; then y means nothing. All
// that it points to outlives the call.
typedef struct ompipe_dynamic_quantize {
  size_t struct_bytes;
  int64_t count;  // of elements; 0 is possible: x and y may then be null
  const float* x;
  uint8_t* y;
  float* scale;
  uint8_t* zero_point;
  ompipe_isa isa;        // that computes
  int32_t unused;        // 0
  void* shared_scratch;  // as of ompipe_matmul_product
  int64_t shared_scratch_bytes;
} ompipe_dynamic_quantize;

// As ompipe_matmul_scratch; *tile_bytes may be 0. Reads `isa` and `count` only.
OMPIPE_KERNELS_API ompipe_status ompipe_dynamic_quantize_scratch(const ompipe_dynamic_quantize* quantize,
                                                                 int64_t* shared_bytes,
                                                                 int64_t* tile_bytes) OMPIPE_NOEXCEPT;

// As ompipe_matmul_call_init.
OMPIPE_KERNELS_API ompipe_status ompipe_dynamic_quantize_call_init(ompipe_call* call, size_t call_bytes,
                                                                   const ompipe_dynamic_quantize* quantize,
                                                                   const char** reason) OMPIPE_NOEXCEPT;

#ifdef __cplusplus
}
#endif
