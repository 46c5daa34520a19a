// Matrix products whose B is the file's own bytes, so that a first run need not wait for a packed weight.
//
// portable: nothing is packed. Few rows are multiplied by the source where it lies; with more rows each tile packs a
// strip of columns into its scratch, which stays in the cache, and runs the packed kernel on it. fused: the strips are
// also written to their final place, and when the call is done the packed weight is whole. Both give the bits of
// matmul_call on packed bytes: the same chains in the same order, and integers that are exact (matmul.h, "Bits"),
// but for a NaN's sign and payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/tiles.h"

namespace ompipe::kernels {

// One product. All memory is the caller's and outlives the call.
struct PortableArgs {
  MatMulArgs product;   // as for matmul_call, but for `packed`, which isn't read, and the size of shared_scratch
  PackSources sources;  // of all of B: `range` is its first byte. Any alignment; nothing outside of B is read
  std::byte* packed = nullptr;  // fused_call: packed_bytes long, aligned; it need not have been touched before
};

// Null if such products take a weight of that description, else a static text that says why not: weights of bytes (u8,
// s8) are multiplied packed only.
const char* portable_unsupported_reason(const MatMulSpec& spec);

// Bytes that all tiles of one call share, as shared_scratch_bytes. Never falls as `m` rises. 0 is possible.
int64_t portable_shared_scratch_bytes(const PackedLayout& layout, int64_t m, ElementType type = ElementType::f32);

// The product on the source; nothing if portable_unsupported_reason. Until a tile runs only the product's `layout`,
// `type` and `m` are read. tile_scratch_bytes never falls as m rises.
std::optional<TiledCall> portable_call(const PortableArgs& args);

// The same, and packs: after the last tile `packed` holds the bytes that pack_range makes of the whole of B, with m = 0
// too. Each packed byte is written by one tile.
std::optional<TiledCall> fused_call(const PortableArgs& args);

}  // namespace ompipe::kernels
