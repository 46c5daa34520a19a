#include "ompipe/kernels/portable.h"

#include <algorithm>
#include <cstdint>

#include "matmul_kernels.h"

namespace ompipe::kernels {
namespace {

// Rough rates of one Zen 3 core, for tile sizes and predictions only. Packing counts bytes of the source.
constexpr double kReadBytesPerNs = 10, kPackedBytesPerNs = 6, kFloatOpsPerNs = 60, kIntOpsPerNs = 120,
                 kDequantisedPerNs = 3, kQuantisedPerNs = 2, kTileNs = 40'000;

// A strip of packed 4-bit groups takes at most so much of L2.
constexpr int64_t kGroupStripBytes = 128 << 10;

enum class Way { direct, strips, fused };

bool is_nbits(const PackedLayout& layout) { return layout.spec.format == WeightFormat::nbits; }

Way way_of(const PackedLayout& layout, int64_t m) {
  const MatMulSpec& spec = layout.spec;
  if (m > kDirectRows) return Way::strips;
  if (!is_nbits(layout)) return Way::direct;
  const bool packed_zero_points = spec.zero_points == ZeroPoints::none || spec.zero_points == ZeroPoints::packed;
  return is_integer(spec) && spec.bits == 4 && packed_zero_points ? Way::direct : Way::strips;
}

// How a call is cut: tiles of `columns` columns and all rows, passed over in blocks of `rows`.
struct ColumnTiling {
  int64_t rows = 0, columns = 0, tiles = 0;
};

double column_ns(const PackedLayout& layout, Way way, int64_t m) {
  const MatMulSpec& spec = layout.spec;
  const double k = static_cast<double>(spec.k), ops = 2 * k * static_cast<double>(m);
  const double bytes = static_cast<double>(layout.source_bytes + layout.scales_bytes) / static_cast<double>(spec.n);
  const double product_ns = ops / (is_integer(spec) ? kIntOpsPerNs : kFloatOpsPerNs);
  if (way == Way::direct) return std::max(product_ns, bytes / kReadBytesPerNs);
  const double dequantise_ns = is_nbits(layout) && !is_integer(spec) ? k / kDequantisedPerNs : 0;
  return product_ns + dequantise_ns + bytes / kPackedBytesPerNs;
}

int64_t group_strip_groups(const PackedLayout& layout) {
  const int64_t groups = divide_up(layout.spec.n, kGroupColumns), group_bytes = layout.packed_bytes / groups;
  // Multiples of 8: the packed kernels take 4 panels of 16 columns at once with one row.
  return std::clamp<int64_t>(kGroupStripBytes / group_bytes / 8 * 8, 8, 64);
}

ColumnTiling tiling_of(const PackedLayout& layout, Way way, int64_t m) {
  const MatMulSpec& spec = layout.spec;
  ColumnTiling tiling;
  if (m < 1 && way != Way::fused) return tiling;
  const double wanted = kTileNs / column_ns(layout, way, m);
  const auto wanted_columns = [&](int64_t step, int64_t least, int64_t most) {
    return std::clamp(static_cast<int64_t>(wanted / static_cast<double>(step) + 0.5) * step, least, most);
  };
  tiling.rows = std::min<int64_t>(m, layout.tuning.rows / kRowsPerTile * kRowsPerTile);
  if (way == Way::direct) {
    tiling.columns = is_nbits(layout) ? wanted_columns(kGroupColumns, kGroupColumns, 1024)
                     : spec.trans_b
                         ? wanted_columns(kPanelColumns, kPanelColumns, 1024)
                         : std::clamp<int64_t>(spec.n / 4 / kPanelColumns * kPanelColumns, 256, kDirectColumns);
  } else if (is_nbits(layout)) {
    const int64_t step = m <= kDirectRows ? 4 * kPanelColumns : kPanelColumns;
    tiling.columns = wanted_columns(step, step, group_strip_groups(layout) * kGroupColumns);
  } else {
    // The sums of a strip's panels fill kStripSumsBytes at most.
    const int64_t rows_of_a_panel = kStripSumsBytes / (kPanelColumns * 4);
    // Rows of B are read a page after the other, so several panels share one; columns are read on and on.
    const int64_t most = spec.trans_b ? 1 : kFloatStripPanels;
    const int64_t panels = std::clamp<int64_t>(rows_of_a_panel / std::max<int64_t>(m, 1), 1, most);
    tiling.rows = std::min(m, rows_of_a_panel / panels);
    tiling.columns = panels * kPanelColumns;
  }
  tiling.tiles = divide_up(spec.n, tiling.columns);
  return tiling;
}

// Columns [column, column + columns) as an operand of its own: such a strip of 4-bit blobs is one range of the source.
struct ColumnStrip {
  ColumnStrip(const PortableArgs& args, int64_t column, int64_t columns) : product(args.product) {
    const PackedLayout& whole = *args.product.layout;
    MatMulSpec spec = whole.spec;
    const auto skipped = [&](int64_t bytes) { return bytes / whole.spec.n * column; };
    sources.range = args.sources.range + skipped(whole.source_bytes);
    sources.scales = args.sources.scales + skipped(whole.scales_bytes);
    if (whole.zero_points_bytes != 0) sources.zero_points = args.sources.zero_points + skipped(whole.zero_points_bytes);
    spec.n = columns;
    layout = *make_layout(spec, whole.isa, whole.tuning);
    if (product.m == 0) return;  // `out` may be null
    const int64_t element = product.type == ElementType::f16 ? 2 : 4;
    product.out = static_cast<std::byte*>(product.out) + column * element;
    if (product.c != nullptr) {
      product.c = static_cast<const std::byte*>(product.c) + column * product.c_column_stride * element;
    }
  }

  PackedLayout layout;
  PackSources sources;
  MatMulArgs product;
};

void run_group_strip(const PortableArgs& args, int64_t column, int64_t columns, int64_t block_rows,
                     std::byte* strip_bytes, std::byte* scratch) {
  ColumnStrip strip(args, column, columns);
  const auto kernel = [&](auto member) { return kernel_of(strip.layout.isa, member); };
  kernel (&MatMulKernels::pack_nbits)(strip.layout, strip.sources, 0, strip.layout.source_bytes, strip_bytes);
  strip.product.layout = &strip.layout;
  strip.product.packed = strip_bytes;
  const bool integer = is_integer(strip.layout.spec);
  const int64_t panels = divide_up(columns, integer ? kGroupColumns : kPanelColumns);
  for (int64_t row = 0; row < args.product.m; row += block_rows) {
    const TileRange range = {row, std::min(row + block_rows, args.product.m), 0, panels};
    kernel(integer ? &MatMulKernels::nbits_int_tile : &MatMulKernels::nbits_float_tile)(strip.product, range, scratch);
  }
}

// Panels of one tile by all rows, strip after strip. With `packed` also their packed bytes, once: further blocks of
// rows read them there.
void run_float_strips(const PortableArgs& args, int64_t panel, int64_t panels, int64_t block_rows, std::byte* scratch) {
  MatMulArgs product = args.product;
  const PackedLayout& layout = *product.layout;
  const auto kernel = [&](auto member) { return kernel_of(layout.isa, member); };
  float* sums = reinterpret_cast<float*>(scratch);
  float* strip_floats = reinterpret_cast<float*>(scratch + kStripSumsBytes);
  product.packed = args.packed;
  int64_t row = 0;
  do {  // with no rows, too: the packed bytes are wanted
    const int64_t end = std::min(row + block_rows, product.m);
    if (row > 0 && product.packed != nullptr) {
      // More than one block of rows, so one panel (tiling_of): its sums take at most kStripSumsBytes of scratch here
      // too.
      kernel (&MatMulKernels::floats_tile)(product, {row, end, panel, panel + panels}, scratch);
    } else {
      std::fill_n(sums, panels * (end - row) * kPanelColumns, 0.0f);
      const int64_t most = kFloatStripBytes / (panels * kPanelColumns * 4);
      FloatStrip strip = {panel, panels, 0, 0, most * kPanelColumns};
      for (; strip.k < layout.spec.k; strip.k += strip.count) {
        strip.count = std::min(most, layout.spec.k - strip.k);
        kernel (&MatMulKernels::pack_strip)(layout.spec, args.sources.range, strip, strip_floats,
                                            reinterpret_cast<float*>(args.packed));
        kernel (&MatMulKernels::multiply_strip)(product, strip, strip_floats, row, end, sums);
      }
      kernel (&MatMulKernels::write_strip)(product, strip, sums, row, end);
    }
    row = end;
  } while (row < product.m);
}

// Bytes of a packed kernel's own scratch; strips of groups lie behind it.
size_t kernel_scratch_bytes(const MatMulArgs& product) { return matmul_call(product).tile_scratch_bytes; }

void run_tile(const PortableArgs& args, Way way, int phase, int64_t tile, std::byte* scratch) {
  const PackedLayout& layout = *args.product.layout;
  const auto kernel = [&](auto member) { return kernel_of(layout.isa, member); };
  const ColumnTiling tiling = tiling_of(layout, way, args.product.m);
  if (prepares_rows(layout.spec, args.product.m, args.product.type) && phase == 0) {
    if (is_integer(layout.spec) && way == Way::direct) return kernel(&MatMulKernels::quantise_spans)(args.product);
    const auto prepare = is_integer(layout.spec) ? &MatMulKernels::quantise_rows : &MatMulKernels::prepare_floats;
    return kernel(prepare)(args.product, row_part(args.product.m, tiling.rows, layout.spec.k, tile));
  }
  const int64_t column = tile * tiling.columns, end = std::min(column + tiling.columns, layout.spec.n);
  if (way == Way::direct) {
    if (is_nbits(layout)) return kernel(&MatMulKernels::nbits_direct_tile)(args, column, end);
    return kernel(&MatMulKernels::floats_direct_tile)(args, column, end, scratch);
  }
  if (!is_nbits(layout)) {
    const int64_t panel = column / kPanelColumns;
    return run_float_strips(args, panel, divide_up(end, kPanelColumns) - panel, tiling.rows, scratch);
  }
  std::byte* strip = scratch + kernel_scratch_bytes(args.product);
  if (way == Way::fused) {
    strip = args.packed + column / kGroupColumns * (layout.packed_bytes / divide_up(layout.spec.n, kGroupColumns));
  }
  run_group_strip(args, column, end - column, tiling.rows, strip, scratch);
}

void run_portable_tile(const void* arguments, int phase, int64_t tile, std::byte* scratch) {
  PortableArgs args = *static_cast<const PortableArgs*>(arguments);
  args.packed = nullptr;
  run_tile(args, way_of(*args.product.layout, args.product.m), phase, tile, scratch);
}

void run_fused_tile(const void* arguments, int phase, int64_t tile, std::byte* scratch) {
  run_tile(*static_cast<const PortableArgs*>(arguments), Way::fused, phase, tile, scratch);
}

size_t scratch_bytes(const MatMulArgs& product, Way way) {
  const PackedLayout& layout = *product.layout;
  if (way == Way::direct) return is_nbits(layout) ? 0 : kDirectRows * kDirectColumns * sizeof(float);
  if (!is_nbits(layout)) return kStripSumsBytes + kFloatStripBytes;
  if (way == Way::fused) return kernel_scratch_bytes(product);
  const int64_t groups = divide_up(layout.spec.n, kGroupColumns);
  return kernel_scratch_bytes(product) +
         static_cast<size_t>(std::min(group_strip_groups(layout), groups) * (layout.packed_bytes / groups));
}

std::optional<TiledCall> call_of(const PortableArgs& args, Way way, TiledCall::RunTile run) {
  const PackedLayout& layout = *args.product.layout;
  if (portable_unsupported_reason(layout.spec) != nullptr) return std::nullopt;
  const int64_t m = args.product.m;
  const ColumnTiling tiling = tiling_of(layout, way, m);
  TiledCall call;
  call.arguments = &args;
  call.run_tile = run;
  call.phase_count = 1;
  call.tile_counts = {tiling.tiles};
  const double product_ns = column_ns(layout, way, m) * static_cast<double>(layout.spec.n);
  call.phase_ns = {product_ns};
  if (prepares_rows(layout.spec, args.product.m, args.product.type)) {
    const bool at_once = is_integer(layout.spec) && way == Way::direct;
    call.phase_count = 2;
    call.tile_counts = {m > 0 && at_once ? 1 : row_part_tiles(m, tiling.rows, layout.spec.k), tiling.tiles};
    call.phase_ns = {static_cast<double>(m * layout.spec.k) / kQuantisedPerNs, product_ns};
  }
  call.tile_scratch_bytes = scratch_bytes(args.product, way);
  return call;
}

}  // namespace

const char* portable_unsupported_reason(const MatMulSpec& spec) {
  if (const char* const reason = unsupported_reason(spec)) return reason;
  return is_bytes(spec) ? "weights of bytes (u8, s8) are multiplied packed only" : nullptr;
}

int64_t portable_shared_scratch_bytes(const PackedLayout& layout, int64_t m, ElementType type) {
  const int64_t bytes = shared_scratch_bytes(layout, m, type);
  if (!is_integer(layout.spec)) return bytes;
  return std::max(bytes, std::min<int64_t>(m, kDirectRows) * span_row(layout.spec).bytes);
}

std::optional<TiledCall> portable_call(const PortableArgs& args) {
  return call_of(args, way_of(*args.product.layout, args.product.m), run_portable_tile);
}

std::optional<TiledCall> fused_call(const PortableArgs& args) { return call_of(args, Way::fused, run_fused_tile); }

}  // namespace ompipe::kernels
