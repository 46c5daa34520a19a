#include "generate_data.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "generate_fill.h"
#include "ompipe/io/limits.h"

namespace ompipe::cli {
namespace {

Status align(io::AtomicFile& file, uint64_t length) {
  const uint64_t alignment = length >= kLargeBytes ? kLargeAlignment : kSmallAlignment;
  const std::vector<std::byte> padding((alignment - file.size_bytes() % alignment) % alignment);
  return file.write(padding);
}

Result<PlacedWeight> write_weight(const WeightSpec& weight, uint64_t key, std::span<std::byte> block,
                                  io::AtomicFile& file) {
  if (Status aligned = align(file, weight.bytes()); !aligned) return aligned.error();
  PlacedWeight placed{.offset = file.size_bytes(), .length = weight.bytes(), .digest = {}, .slices = {}};
  for (uint64_t done = 0; done < placed.length; done += io::kSliceBytes) {
    const std::span<std::byte> slice = block.first(std::min<uint64_t>(io::kSliceBytes, placed.length - done));
    fill_weight(weight, key, done, slice);
    placed.slices.push_back(io::slice_hash(slice));
    if (Status written = file.write(slice); !written) return written.error();
  }
  placed.digest = io::fold(placed.slices);
  return placed;
}

}  // namespace

Result<std::vector<PlacedWeight>> write_data(const ModelSpec& model, uint64_t seed, io::AtomicFile& file) {
  std::vector<std::byte> block(io::kSliceBytes);
  std::vector<PlacedWeight> placed;
  for (const WeightSpec& weight : model.weights) {
    if (!weight.same_bytes_as.empty()) {
      const auto source = std::find_if(model.weights.begin(), model.weights.end(),
                                       [&](const WeightSpec& other) { return other.name == weight.same_bytes_as; });
      OMPIPE_CHECK(source - model.weights.begin() < std::ptrdiff_t(placed.size()) && source->bytes() == weight.bytes());
      placed.push_back(placed[size_t(source - model.weights.begin())]);
      continue;
    }
    Result<PlacedWeight> written = write_weight(weight, weight_key(seed, weight.name), block, file);
    if (!written) return written.error();
    placed.push_back(std::move(written).value());
  }
  return placed;
}

}  // namespace ompipe::cli
