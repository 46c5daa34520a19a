// Fuzz target: any description of a weight is refused or packs and multiplies within the memory that it states; the
// scalar kernels and the best ones of this machine give the same bytes, and products on the file's bytes those of the
// packed one.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "ompipe/kernels/matmul.h"
#include "ompipe/kernels/matmul_integer.h"
#include "ompipe/kernels/portable.h"

using namespace ompipe::kernels;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

// The fuzzer's bytes, then zeros.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t byte() { return at_ < size_ ? data_[at_++] : uint8_t{0}; }
  int64_t number() { return byte() | byte() << 8; }
  bool bit() { return byte() % 2 != 0; }
  // A value of the list, or now and then one that isn't there.
  int one_of(std::initializer_list<int> list) {
    const uint8_t drawn = byte();
    return drawn < 240 ? list.begin()[drawn % list.size()] : drawn - 248;
  }
  // Any bytes, or the moderate numbers that elements of 2 and 4 bytes are with such an odd byte: of any, most sums are
  // NaN.
  void fill(std::vector<std::byte>& bytes, bool moderate) {
    for (std::byte& byte : bytes) byte = std::byte{uint8_t(this->byte() * 37 + &byte - bytes.data())};
    for (size_t i = 1; moderate && i < bytes.size(); i += 2) bytes[i] = (bytes[i] & std::byte{0x83}) | std::byte{0x3c};
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

MatMulSpec draw_spec(Input& input) {
  MatMulSpec spec;
  spec.format = WeightFormat(input.byte() % 6);
  spec.k = input.number() % 700 - 2;
  spec.n = input.number() % 80 - 2;
  spec.trans_b = input.bit();
  spec.bits = input.one_of({2, 4, 8});
  spec.block = input.one_of({16, 32, 64, 128, 256});
  spec.accuracy_level = input.one_of({0, 4});
  spec.zero_points = ZeroPoints(input.byte() % 4);
  spec.scale_type = input.bit() ? ScaleType::f16 : ScaleType::f32;
  spec.half_scales = input.bit();
  return spec;
}

// Strips that these K are cut into, and small blocks of rows.
Tuning draw_tuning(Input& input) {
  Tuning tuning;
  tuning.strip_k = 64 + 32 * int64_t(input.byte() % 24);
  tuning.rows = 24 + 6 * int64_t(input.byte() % 29);
  return tuning;
}

// At kAlignmentBytes, of exactly these bytes: what lies behind belongs to nobody, which a sanitizer sees.
class Aligned {
 public:
  explicit Aligned(int64_t bytes, int poison) : bytes_(bytes), memory_(allocate(bytes)) {
    std::memset(memory_.get(), poison, size_t(bytes));
  }
  std::byte* data() { return static_cast<std::byte*>(memory_.get()); }
  bool same(const Aligned& other) const {
    return bytes_ == other.bytes_ && std::memcmp(memory_.get(), other.memory_.get(), size_t(bytes_)) == 0;
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  static void* allocate(int64_t bytes) {
    void* memory = nullptr;
    demand(posix_memalign(&memory, kAlignmentBytes, size_t(std::max<int64_t>(bytes, 1))) == 0);
    return memory;
  }
  int64_t bytes_;
  std::unique_ptr<void, Free> memory_;
};

struct Sources {
  std::vector<std::byte> b, scales, zero_points, a, c;  // c: empty if there is none
  int64_t cut = 0, m = 0, lda = 0;
  ElementType type = ElementType::f32;
  float alpha = 1, beta = 1;
};

Aligned pack(const PackedLayout& layout, const Sources& sources) {
  Aligned packed(layout.packed_bytes, 0xa5);
  PackSources from = {sources.b.data(), sources.scales.data(), sources.zero_points.data()};
  pack_range(layout, from, 0, sources.cut, packed.data());
  from.range += sources.cut;
  pack_range(layout, from, sources.cut, layout.source_bytes, packed.data());
  return packed;
}

void run(const TiledCall& call) {
  Aligned scratch(int64_t(call.tile_scratch_bytes), 0xa5);
  run_serially(call, scratch.data());
}

bool is_float(const MatMulSpec& spec) { return spec.format != WeightFormat::u8 && spec.format != WeightFormat::s8; }

Aligned multiply_bytes(const PackedLayout& layout, const Sources& sources, Aligned& packed) {
  Aligned out(sources.m * layout.spec.n * 4, 0x5a), shared(integer_scratch_bytes(layout, sources.m), 0xa5);
  MatMulIntegerArgs args;
  args.layout = &layout, args.packed = packed.data(), args.m = sources.m;
  args.a_signed = sources.type == ElementType::f16, args.a = sources.a.data(), args.lda = sources.lda;
  args.a_zero_point = sources.a.data(), args.b_zero_points = sources.b.data();
  args.out = reinterpret_cast<int32_t*>(out.data()), args.ldc = layout.spec.n, args.shared_scratch = shared.data();
  run(matmul_integer_call(args));
  return out;
}

MatMulArgs product_of(const PackedLayout& layout, const Sources& sources, Aligned& out, Aligned& shared) {
  MatMulArgs args;
  args.type = sources.type, args.layout = &layout, args.m = sources.m;
  args.a = sources.a.data(), args.lda = sources.lda;
  args.out = out.data(), args.ldc = layout.spec.n, args.shared_scratch = shared.data();
  args.alpha = sources.alpha, args.beta = sources.beta;
  if (!sources.c.empty()) args.c = sources.c.data(), args.c_row_stride = layout.spec.n;
  return args;
}

Aligned multiply(const PackedLayout& layout, const Sources& sources, Aligned& packed) {
  if (!is_float(layout.spec)) return multiply_bytes(layout, sources, packed);
  Aligned out(sources.m * layout.spec.n * int64_t(element_bytes(sources.type)), 0x5a);
  Aligned shared(shared_scratch_bytes(layout, sources.m, sources.type), 0xa5);
  MatMulArgs args = product_of(layout, sources, out, shared);
  args.packed = packed.data();
  run(matmul_call(args));
  return out;
}

// On the file's bytes; `packed`: where they are packed to on the way, or null.
Aligned multiply_source(const PackedLayout& layout, const Sources& sources, std::byte* packed) {
  Aligned out(sources.m * layout.spec.n * int64_t(element_bytes(sources.type)), 0x5a);
  Aligned shared(portable_shared_scratch_bytes(layout, sources.m, sources.type), 0xa5);
  PortableArgs args;
  args.product = product_of(layout, sources, out, shared);
  args.sources = {sources.b.data(), sources.scales.data(), sources.zero_points.data()};
  args.packed = packed;
  const std::optional<TiledCall> call = packed != nullptr ? fused_call(args) : portable_call(args);
  demand(call.has_value());
  run(*call);
  return out;
}

// A NaN's sign and payload are nobody's promise.
bool same_values(Aligned& left, Aligned& right, int64_t count, bool floats, ElementType type) {
  if (!floats) return left.same(right);
  for (int64_t i = 0; i < count; ++i) {
    if (type == ElementType::f16) {
      const uint16_t x = reinterpret_cast<uint16_t*>(left.data())[i], y = reinterpret_cast<uint16_t*>(right.data())[i];
      if (x != y && ((x & 0x7fff) <= 0x7c00 || (y & 0x7fff) <= 0x7c00)) return false;
    } else {
      const float x = reinterpret_cast<float*>(left.data())[i], y = reinterpret_cast<float*>(right.data())[i];
      if (x != y && (x == x || y == y)) return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const MatMulSpec spec = draw_spec(input);
  const bool supported = unsupported_reason(spec) == nullptr;
  const Tuning tuning = draw_tuning(input);
  const std::optional<PackedLayout> scalar = make_layout(spec, Isa::scalar),
                                    best = make_layout(spec, best_isa(), tuning);
  demand(scalar.has_value() == supported && best.has_value() == supported);
  if (!supported) return 0;
  demand(layout_key(*scalar) == layout_key(*best) && scalar->packed_bytes == best->packed_bytes);
  const bool nbits = spec.format == WeightFormat::nbits;
  const int64_t unit = nbits ? spec.block * spec.bits / 8 : scalar->source_bytes / (spec.k * spec.n);
  Sources sources;
  // Around blocks of rows now and then only: such a product takes long.
  sources.m = input.byte() < 240 ? 1 + input.byte() % 9 : 5 + input.byte();
  sources.lda = spec.k + input.byte() % 5;
  sources.alpha = 1 - 0.5f * float(input.byte() % 4);
  sources.beta = 1 - 0.5f * float(input.byte() % 4);
  sources.type = input.bit() ? ElementType::f16 : ElementType::f32;
  sources.cut = input.number() % (scalar->source_bytes / unit + 1) * unit;
  sources.b.resize(size_t(scalar->source_bytes));
  sources.scales.resize(size_t(scalar->scales_bytes));
  sources.zero_points.resize(size_t(scalar->zero_points_bytes));
  sources.a.resize(size_t(sources.m * sources.lda * 4));
  if (input.bit()) sources.c.resize(size_t(sources.m * spec.n * 4));
  const bool moderate = input.bit(), packed_bits = nbits || !is_float(spec);
  input.fill(sources.b, moderate && !packed_bits);
  for (auto* bytes : {&sources.scales, &sources.zero_points, &sources.a, &sources.c}) input.fill(*bytes, moderate);
  Aligned reference = pack(*scalar, sources), packed = pack(*best, sources);
  demand(reference.same(packed));
  const bool floats = is_float(spec);
  Aligned expected = multiply(*scalar, sources, reference);
  const auto demand_expected = [&](Aligned got) {
    demand(same_values(expected, got, sources.m * spec.n, floats, sources.type));
  };
  demand_expected(multiply(*best, sources, packed));
  if (!floats) return 0;
  demand_expected(multiply_source(*best, sources, nullptr));
  Aligned made(best->packed_bytes, 0xa5);
  demand_expected(multiply_source(*best, sources, made.data()));
  demand(made.same(reference));
  return 0;
}
