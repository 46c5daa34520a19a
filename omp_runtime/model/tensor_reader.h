// One TensorProto, walked: its type, dims and where its elements lie, without reading them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ompipe/model/payload.h"
#include "ompipe/model/types.h"

namespace ompipe::model {

struct Walk;

// Elements that a file states one field each (or in several packed pieces) are decoded at once, up to this many bytes.
inline constexpr uint64_t kMaxLooseBytes = 4096;

struct ByteRange {
  uint64_t offset = 0, length = 0;  // in the .onnx file
};

struct TensorRecord {
  std::string name;
  std::string_view name_view;      // the same, in the file; empty when the file gives none
  int32_t stated_dtype = 0;        // as in the file
  DType dtype = DType::undefined;  // undefined when this runtime doesn't hold the stated one
  Shape dims;
  std::optional<ByteRange> inline_range;  // raw_data, or one packed typed field
  Encoding encoding = Encoding::raw;
  std::optional<std::vector<uint8_t>> loose;  // decoded elements, little-endian
  bool external = false;
  std::optional<std::string_view> location, offset, length, checksum;  // of external_data, as in the file
};

// `fallback_name` is what messages call a tensor without a name. Throws ReadFailure and protozero's exceptions.
TensorRecord read_tensor(std::string_view message, const std::string& fallback_name, Walk& walk);

// The element type that TensorProto numbers so; undefined when this runtime doesn't hold it.
DType known_dtype(int32_t stated);

// Bytes of the decoded elements; dims have been checked when the record was read.
uint64_t decoded_bytes(const TensorRecord& tensor);

}  // namespace ompipe::model
