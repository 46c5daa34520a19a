#include "payload_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ompipe/io/digest.h"
#include "walk.h"

namespace ompipe::model {
namespace {

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
}

Error damage(const TensorRecord& tensor, const std::string& file, std::string reason) {
  return {
      .kind = ErrorKind::bad_model, .phase = "open", .subject = tensor.name, .reason = std::move(reason), .file = file};
}

// A decimal number as external_data writes it; nothing but digits is accepted.
uint64_t number_of(std::string_view text, const char* which, const TensorRecord& tensor, const std::string& file) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) {
    throw ReadFailure{damage(tensor, file, fmt::format("{} {} overflows 64 bits", which, text.substr(0, 40)))};
  }
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ReadFailure{damage(tensor, file, fmt::format("{} '{}' is not a number", which, text.substr(0, 40)))};
  }
  return number;
}

std::string wanted_text(const TensorRecord& tensor) {
  return fmt::format("{} {} needs {} bytes", dtype_name(tensor.dtype), shape_text(tensor.dims), decoded_bytes(tensor));
}

}  // namespace

PayloadTable::PayloadTable(io::FileSet& files, ModelGraph& graph) : files_(files), graph_(graph) {
  file_index(files_.model(), {});
}

int32_t PayloadTable::file_index(std::shared_ptr<const io::FileHandle> handle, const std::string& location) {
  for (size_t i = 0; i < graph_.files.size(); ++i) {
    if (graph_.files[i].handle == handle) return int32_t(i);
  }
  graph_.files.push_back({.location = location,
                          .path = handle->path(),
                          .bytes = handle->size_bytes(),
                          .sha1 = {},
                          .handle = std::move(handle)});
  return int32_t(graph_.files.size()) - 1;
}

TensorPlace PayloadTable::add(TensorRecord tensor, Walk& walk) {
  if (dtype_bytes(tensor.dtype) == 0) {
    graph_.notes.push_back(fmt::format("tensor {} has element type {}, which has no payload", tensor.name,
                                       tensor.dtype == DType::string ? "string" : std::to_string(tensor.stated_dtype)));
    return {};
  }
  if (tensor.external) return {.payload = add_external(tensor, walk)};

  const uint64_t bytes = decoded_bytes(tensor);
  if (tensor.inline_range) {
    const ByteRange range = *tensor.inline_range;
    const uint64_t count = bytes / dtype_bytes(tensor.dtype);
    const bool right =
        tensor.encoding == Encoding::raw ? range.length == bytes : range.length >= count && range.length <= count * 10;
    if (!right) {
      Error error = damage(tensor, walk.path,
                           tensor.encoding == Encoding::raw
                               ? wanted_text(tensor)
                               : fmt::format("{} {} needs {} varints of 1 to 10 bytes", dtype_name(tensor.dtype),
                                             shape_text(tensor.dims), count));
      error.offset = range.offset;
      error.length = range.length;
      error.got = range.length;
      throw ReadFailure{std::move(error)};
    }
    return {.payload = add_range(tensor, 0, range.offset, range.length)};
  }
  if (tensor.loose->size() != bytes) {
    Error error = damage(tensor, walk.path, wanted_text(tensor));
    error.got = tensor.loose->size();
    throw ReadFailure{std::move(error)};
  }
  graph_.constants.push_back({.dtype = tensor.dtype, .dims = tensor.dims, .bytes = std::move(*tensor.loose)});
  return {.constant = int32_t(graph_.constants.size()) - 1};
}

PayloadId PayloadTable::add_external(const TensorRecord& tensor, Walk& walk) {
  if (!tensor.location) throw ReadFailure{damage(tensor, walk.path, "external data without a location")};
  const std::string location(*tensor.location);
  const uint64_t bytes = decoded_bytes(tensor);
  const uint64_t offset = tensor.offset ? number_of(*tensor.offset, "offset", tensor, location) : 0;
  const uint64_t length = tensor.length ? number_of(*tensor.length, "length", tensor, location) : bytes;
  auto opened = files_.open_external(location, tensor.name);
  if (!opened) {
    Error error = opened.error();
    error.phase = "open";
    error.subject = tensor.name;
    throw ReadFailure{std::move(error)};
  }
  if (length != bytes) {
    Error error = damage(tensor, (*opened)->path(), wanted_text(tensor));
    error.offset = offset;
    error.length = error.got = length;
    throw ReadFailure{std::move(error)};
  }
  const uint64_t size = (*opened)->size_bytes();
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, length, &end) || end > size) {
    Error error =
        damage(tensor, (*opened)->path(), fmt::format("range ends past the end of the file of {} bytes", size));
    error.offset = offset;
    error.length = length;
    error.got = offset < size ? size - offset : 0;
    throw ReadFailure{std::move(error)};
  }
  const PayloadId id =
      add_range(tensor, file_index(*opened, io::normalise_location(location, tensor.name).value()), offset, length);
  note_checksum(tensor, id);
  return id;
}

PayloadId PayloadTable::add_range(const TensorRecord& tensor, int32_t file, uint64_t offset, uint64_t length) {
  const PayloadId fresh = PayloadId(graph_.payloads.size());
  if (tensor.encoding == Encoding::raw && length != 0) {
    const auto [place, inserted] = by_range_.try_emplace({file, offset, length}, fresh);
    if (!inserted) return place->second;
  }
  graph_.payloads.push_back({.name = tensor.name,
                             .file = file,
                             .offset = offset,
                             .length = length,
                             .encoding = tensor.encoding,
                             .dtype = tensor.dtype,
                             .dims = tensor.dims,
                             .digest = {},
                             .slice_hashes = {}});
  return fresh;
}

void PayloadTable::note_checksum(const TensorRecord& tensor, PayloadId id) {
  if (!tensor.checksum) return;
  const std::string checksum(*tensor.checksum);
  Payload& payload = graph_.payloads[size_t(id)];
  SourceFile& file = graph_.files[size_t(payload.file)];
  const bool digest = io::parse_digest(checksum).ok();
  std::string* const place = digest ? &payload.digest : &file.sha1;
  if (!digest && (checksum.size() != 40 || !is_hex(checksum))) {
    graph_.notes.push_back(fmt::format("tensor {}: checksum of an unknown form is ignored", tensor.name));
    return;
  }
  if (!place->empty() && *place != checksum) {
    throw ReadFailure{
        damage(tensor, file.path, fmt::format("two checksums for the same bytes: {} and {}", *place, checksum))};
  }
  *place = checksum;
}

}  // namespace ompipe::model
