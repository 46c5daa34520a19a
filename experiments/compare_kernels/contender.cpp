#include "contender.h"

#include <dlfcn.h>

#include <filesystem>
#include <random>

namespace ompipe::bench {
namespace {

template <class Opaque>
Opaque* as(const BenchMemory& memory) {
  return reinterpret_cast<Opaque*>(memory.data());
}

ompipe_matmul_weight weight_of(const Options& options) {
  ompipe_matmul_weight weight{};
  weight.struct_bytes = sizeof weight;
  weight.k = options.k;
  weight.n = options.n;
  weight.format = options.nbits ? OMPIPE_WEIGHT_NBITS : OMPIPE_WEIGHT_F32;
  if (options.nbits) {
    weight.bits = static_cast<int32_t>(options.bits);
    weight.block = static_cast<int32_t>(options.block);
    weight.accuracy_level = static_cast<int32_t>(options.level);
    weight.scales = options.half_scales ? OMPIPE_SCALES_F32_AS_F16 : OMPIPE_SCALES_F32;
  }
  return weight;
}

// A path with a slash is a file's; without one the loader would look elsewhere.
void* load(const std::string& path) {
  void* const handle = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) refuse(path, dlerror(), "expected a build of ompipe_kernels_shared");
  return handle;
}

}  // namespace

void KernelLibrary::Close::operator()(void* handle) const { dlclose(handle); }

KernelLibrary::KernelLibrary(const std::string& path) : path_(path), handle_(load(path)) {}

Symbol KernelLibrary::symbol(const char* name) const {
  void* const address = dlsym(handle_.get(), name);
  if (address == nullptr)
    refuse(path_, std::string("no function ") + name, "expected a build of ompipe_kernels_shared");
  return {address};
}

void KernelLibrary::check(ompipe_status status, const std::string& what, const char* reason) const {
  if (status != OMPIPE_OK)
    refuse(path_, what + ": " + status_text(status), reason != nullptr ? reason : "expected none");
}

// Scales are float16's numbers, so that packing them as those loses nothing.
Operands::Operands(const Options& options, const ompipe_matmul_sizes& sizes)
    : a(options.m * options.k * 4), b(sizes.source_bytes), scales(sizes.scales_bytes), out(options.m * options.n * 4) {
  std::minstd_rand random(1);
  const auto fill = [&random](const BenchMemory& memory, int64_t bytes) {
    for (int64_t i = 0; i < bytes / 4; ++i) memory.floats()[i] = static_cast<float>(random() % 2001) / 1000 - 1;
  };
  fill(a, options.m * options.k * 4);
  if (options.nbits) {
    for (int64_t i = 0; i < sizes.source_bytes; ++i) b.data()[i] = static_cast<std::byte>(random() >> 8);
  } else {
    fill(b, sizes.source_bytes);
  }
  for (int64_t i = 0; i < sizes.scales_bytes / 4; ++i) {
    scales.floats()[i] = static_cast<float>(random() % 1024 + 1024) / (1 << 17);
  }
}

Contender::Contender(const Side& side, const Options& options)
    : side_(side), library_(side.library), layout_(library_.layout_size().bytes) {
  if (!side_.tuning.empty()) tune();
  ompipe_matmul_weight weight = weight_of(options);
  if (tuning_ != nullptr) weight.tuning = as<ompipe_tuning>(*tuning_);
  const char* reason = nullptr;
  const ompipe_status status =
      library_.layout_init(as<ompipe_matmul_layout>(layout_), library_.layout_size().bytes, &weight, &reason);
  library_.check(status, "the weight", reason);
  sizes_.struct_bytes = sizeof sizes_;
  library_.check(library_.layout_sizes(as<ompipe_matmul_layout>(layout_), &sizes_), "sizes", nullptr);
}

// Looked up only here: version 1.0 has no tunings.
void Contender::tune() {
  const decltype(&ompipe_tuning_size) size = library_.symbol("ompipe_tuning_size");
  const decltype(&ompipe_tuning_init) init = library_.symbol("ompipe_tuning_init");
  const decltype(&ompipe_tuning_set) set = library_.symbol("ompipe_tuning_set");
  const size_t bytes = size().bytes;
  tuning_ = std::make_unique<BenchMemory>(bytes);
  auto* const tuning = as<ompipe_tuning>(*tuning_);
  const char* reason = nullptr;
  library_.check(init(tuning, bytes, &reason), "tuning", reason);
  for (const TuningValue& field : side_.tuning) {
    const ompipe_status status = set(tuning, field.name.c_str(), field.value, &reason);
    library_.check(status, "tuning " + field.name + "=" + std::to_string(field.value), reason);
  }
}

std::string Contender::description() const {
  const uint32_t version = library_.version();
  const char* const isa = library_.isa_name(library_.layout_isa(as<ompipe_matmul_layout>(layout_)));
  std::string text =
      side_.library + " (" + std::to_string(version >> 16) + "." + std::to_string(version & 0xffff) + ", " + isa + ")";
  for (const TuningValue& field : side_.tuning) text += " " + field.name + "=" + std::to_string(field.value);
  return text;
}

void Contender::prepare(const Options& options, const Operands& operands) {
  ompipe_matmul_source source{};
  source.struct_bytes = sizeof source;
  source.end = sizes_.source_bytes;
  source.range = operands.b.data();
  source.scales = options.nbits ? operands.scales.data() : nullptr;
  for (int64_t i = 0; i < options.copies; ++i) {
    const BenchMemory& packed = packed_.emplace_back(sizes_.packed_bytes);
    const char* reason = nullptr;
    const ompipe_status status =
        library_.pack(as<ompipe_matmul_layout>(layout_), &source, packed.data(), sizes_.packed_bytes, &reason);
    library_.check(status, "packing", reason);
    bind(options, operands);
  }
}

void Contender::bind(const Options& options, const Operands& operands) {
  ompipe_matmul_product product = ompipe_matmul_product_default();
  product.layout = as<ompipe_matmul_layout>(layout_);
  product.m = options.m;
  library_.check(library_.scratch(&product, &product.shared_scratch_bytes, &tile_scratch_bytes_), "scratch", nullptr);
  // One byte more: it may be none at all.
  if (tile_scratch_ == nullptr) tile_scratch_ = std::make_unique<BenchMemory>(tile_scratch_bytes_ + 1);
  product.packed = packed_.back().data();
  product.a = operands.a.data();
  product.lda = options.k;
  product.out = operands.out.data();
  product.ldo = options.n;
  product.shared_scratch = shared_scratch_.emplace_back(product.shared_scratch_bytes + 1).data();
  const size_t bytes = library_.call_size().bytes;
  const char* reason = nullptr;
  const ompipe_status status =
      library_.call_init(as<ompipe_call>(calls_.emplace_back(bytes)), bytes, &product, &reason);
  library_.check(status, "the product", reason);
}

void Contender::run(int64_t copy) {
  const ompipe_status status =
      library_.call_run(as<ompipe_call>(calls_[copy]), tile_scratch_->data(), tile_scratch_bytes_);
  library_.check(status, "a call", nullptr);
}

}  // namespace ompipe::bench
