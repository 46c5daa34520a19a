// Where the bytes of a tensor lie, without having touched one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ompipe/model/types.h"

namespace ompipe::model {

using PayloadId = int32_t;
inline constexpr int32_t kNone = -1;

// How the file holds the elements. Everything but raw is decoded on the way (ONNX TensorProto's typed fields).
enum class Encoding : uint8_t {
  raw,            // little-endian elements, as raw_data, packed float_data/double_data and external files hold them
  packed_varint,  // packed int32_data, int64_data, uint64_data
};

// Why the bytes will or will not be read.
enum class ManifestState : uint8_t {
  active,   // some requirement reads it
  dormant,  // the portable source behind something better; a recorded failure activates it
  avoided,  // never read in this session
};
enum class AvoidedReason : uint8_t { none, dead, superseded, companion, branch };

// One payload of the model. Identical (file, offset, length) ranges share one payload, so shared bytes are read once.
struct Payload {
  std::string name;      // the first tensor that uses it
  int32_t file = kNone;  // index into ResolvedModel::files
  uint64_t offset = 0;   // in the file
  uint64_t length = 0;   // in the file
  Encoding encoding = Encoding::raw;
  DType dtype = DType::undefined;
  Shape dims;
  std::string digest;                     // "xxh3-128/1M:<32 hex digits>", or empty when the source states none
  std::vector<std::string> slice_hashes;  // 32 hex digits for each 1 MiB slice, from a trusted list; else empty

  uint64_t bytes() const { return uint64_t(element_count(dims)) * dtype_bytes(dtype); }  // decoded
};

struct ManifestEntry {
  PayloadId payload = kNone;
  ManifestState state = ManifestState::avoided;
  AvoidedReason avoided = AvoidedReason::none;
  std::string why;  // for people: "MatMulNBits /layers.0/q_proj", "initializer is not used", ...
};

}  // namespace ompipe::model
