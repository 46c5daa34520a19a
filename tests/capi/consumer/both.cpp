// The C interface and the C++ headers of one installation, from the static library: both name the same layout, and
// their products have the same bits.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/matmul_integer.h"
#include "ompipe/kernels/portable.h"
#include "ompipe_kernels.h"

namespace k = ompipe::kernels;

namespace {

constexpr int64_t kM = 5, kK = 96, kN = 40;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "both: %s\n", what);
  std::exit(1);
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(size_t bytes, size_t alignment = OMPIPE_ALIGNMENT) {
  return Memory(std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment));
}

template <typename Opaque>
Opaque* in(const Memory& memory) {
  return static_cast<Opaque*>(memory.get());
}

Memory make_layout(int32_t format) {
  ompipe_matmul_weight weight = {};
  weight.struct_bytes = sizeof weight;
  weight.k = kK;
  weight.n = kN;
  weight.format = format;
  const ompipe_size size = ompipe_matmul_layout_size();
  Memory layout = allocate(size.bytes, size.alignment);
  demand(ompipe_matmul_layout_init(in<ompipe_matmul_layout>(layout), size.bytes, &weight, nullptr) == OMPIPE_OK,
         "no layout");
  return layout;
}

k::PackedLayout make_layout(k::WeightFormat format) {
  return k::make_layout({.format = format, .k = kK, .n = kN}, k::best_isa()).value();
}

// Runs what `init` makes in memory for a call.
template <typename Init>
void run_c(Init init) {
  const ompipe_size size = ompipe_call_size();
  const Memory memory = allocate(size.bytes, size.alignment);
  auto* const call = in<ompipe_call>(memory);
  demand(init(call, size.bytes) == OMPIPE_OK, "no call");
  const int64_t bytes = ompipe_call_tile_scratch_bytes(call);
  demand(ompipe_call_run(call, allocate(size_t(bytes)).get(), bytes) == OMPIPE_OK, "it doesn't run");
}

void run(const k::TiledCall& call) {
  k::run_serially(call, static_cast<std::byte*>(allocate(call.tile_scratch_bytes).get()));
}

std::vector<float> floats(int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) all[i] = float(i * 7 % 101) / 64 - 0.7f;
  return all;
}

void compare_layouts() {
  const Memory layout = make_layout(OMPIPE_WEIGHT_F32);
  char key[128];
  demand(ompipe_matmul_layout_key(in<ompipe_matmul_layout>(layout), key, sizeof key, nullptr) == OMPIPE_OK, "no key");
  demand(k::layout_key(make_layout(k::WeightFormat::f32)) == key, "two keys of one layout");
  std::printf("%s\n", key);
}

// On B's own bytes, packing them: outputs and packed bytes.
void compare_fused() {
  const std::vector<float> b = floats(kK * kN), a = floats(kM * kK);
  std::vector<float> c_out(kM * kN), out(kM * kN, -1);
  const Memory c_layout = make_layout(OMPIPE_WEIGHT_F32);
  const k::PackedLayout layout = make_layout(k::WeightFormat::f32);
  const auto packed_bytes = static_cast<size_t>(layout.packed_bytes);
  const Memory c_packed = allocate(packed_bytes), packed = allocate(packed_bytes);

  ompipe_matmul_source source = {};
  source.struct_bytes = sizeof source;
  source.end = layout.source_bytes;
  source.range = b.data();
  ompipe_matmul_product product = ompipe_matmul_product_default();
  product.layout = in<ompipe_matmul_layout>(c_layout);
  product.way = OMPIPE_PRODUCT_FUSED;
  product.source = &source;
  product.pack_into = c_packed.get();
  product.pack_into_bytes = layout.packed_bytes;
  product.m = kM;
  product.a = a.data();
  product.lda = kK;
  product.out = c_out.data();
  product.ldo = kN;
  int64_t tile_bytes;
  demand(ompipe_matmul_scratch(&product, &product.shared_scratch_bytes, &tile_bytes) == OMPIPE_OK, "scratch");
  demand(product.shared_scratch_bytes == k::portable_shared_scratch_bytes(layout, kM), "two sizes of scratch");
  const Memory shared = allocate(static_cast<size_t>(product.shared_scratch_bytes));
  product.shared_scratch = shared.get();
  run_c([&](ompipe_call* call, size_t bytes) { return ompipe_matmul_call_init(call, bytes, &product, nullptr); });

  k::PortableArgs args;
  args.product.layout = &layout;
  args.product.m = kM;
  args.product.a = a.data();
  args.product.lda = kK;
  args.product.out = out.data();
  args.product.ldc = kN;
  args.sources.range = reinterpret_cast<const std::byte*>(b.data());
  args.packed = static_cast<std::byte*>(packed.get());
  args.product.shared_scratch = static_cast<std::byte*>(shared.get());
  run(k::fused_call(args).value());
  demand(std::memcmp(out.data(), c_out.data(), out.size() * sizeof(float)) == 0, "two products of one source");
  demand(std::memcmp(packed.get(), c_packed.get(), packed_bytes) == 0, "two packed forms of one source");
}

void compare_integer() {
  std::vector<std::byte> bytes(kM * kK + kK * kN);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 29 >> 2);
  const std::byte *const a = bytes.data(), *const b = a + kM * kK;
  std::vector<int32_t> c_out(kM * kN), out(kM * kN, -1);
  const Memory c_layout = make_layout(OMPIPE_WEIGHT_S8);
  const k::PackedLayout layout = make_layout(k::WeightFormat::s8);
  const Memory packed = allocate(static_cast<size_t>(layout.packed_bytes));
  k::pack_range(layout, {.range = b}, 0, layout.source_bytes, static_cast<std::byte*>(packed.get()));

  ompipe_matmul_integer_product product = {};
  product.struct_bytes = sizeof product;
  product.layout = in<ompipe_matmul_layout>(c_layout);
  product.packed = packed.get();
  product.m = kM;
  product.a = a;
  product.lda = kK;
  product.out = c_out.data();
  product.ldo = kN;
  product.a_zero_point = product.b_zero_points = a;
  product.b_zero_point_stride = 1;
  int64_t tile_bytes;
  demand(ompipe_matmul_integer_scratch(&product, &product.shared_scratch_bytes, &tile_bytes) == OMPIPE_OK, "scratch");
  const Memory shared = allocate(static_cast<size_t>(product.shared_scratch_bytes));
  product.shared_scratch = shared.get();
  run_c([&](ompipe_call* call, size_t size) { return ompipe_matmul_integer_call_init(call, size, &product, nullptr); });

  k::MatMulIntegerArgs args;
  args.layout = &layout;
  args.packed = static_cast<const std::byte*>(packed.get());
  args.m = kM;
  args.a = a;
  args.lda = kK;
  args.a_zero_point = args.b_zero_points = a;
  args.b_zero_point_stride = 1;
  args.out = out.data();
  args.ldc = kN;
  args.shared_scratch = static_cast<std::byte*>(shared.get());
  run(k::matmul_integer_call(args));
  demand(out == c_out, "two integer products");
}

}  // namespace

int main() {
  compare_layouts();
  compare_fused();
  compare_integer();
  return 0;
}
