// Tile sizes of the matrix products: they decide how fast a product is and never its bits or the packed bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ompipe::kernels {

// The defaults were measured with avx2 and 512 KiB of L2: `quantised_bytes` by experiments/e03_tuning, whose
// last run doesn't tell values of `tile_us` apart; `rows` and `strip_k` by decisions 0185 and 0187.
struct Tuning {
  int64_t tile_us = 40;                 // predicted work of a tile, in microseconds
  int64_t rows = 192;                   // of A that a tile passes over at most
  int64_t quantised_bytes = 256 << 10;  // of quantised rows that a tile passes over at most
  int64_t strip_k = 2560;  // of k: of a strip of dequantised weights, and of float panels for 24 rows and more, at
                           // most; k is cut into equal strips
};

// The profile of CPUs with that much L2: half of it holds quantised rows, 5/16 a strip of 16 columns, if that is less
// than the default. 0 bytes: unknown, the defaults.
Tuning tuning_for(int64_t l2_bytes);

// tuning_for with this CPU's L2. Asks the C library once per process; any thread.
Tuning tuning_of_this_cpu();

// Sets the field of that name: tile-us (1 to 10000), rows (24 to 192,
// a multiple of 6), quantised-bytes (4096 to 2^30), strip-k (64 to 4096, a multiple of 32). Gives null, or a static
// text that says what was expected and leaves `tuning` as it was.
const char* set_tuning(Tuning& tuning, std::string_view name, int64_t value);

// Null if every field is what set_tuning would take, else the static text about the first that isn't.
const char* tuning_error(const Tuning& tuning);

// The names of the fields, from 0; null where there are no more.
const char* tuning_name(int index);

// The value of the field of that name; nothing for an unknown one.
std::optional<int64_t> tuning_value(const Tuning& tuning, std::string_view name);

}  // namespace ompipe::kernels
