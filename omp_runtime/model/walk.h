// The position in the .onnx file while it is walked, and the one way in which walking fails.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "ompipe/arenas/error.h"

namespace ompipe::model {

// Thrown and caught inside the reader only, as protozero's own exceptions are.
struct ReadFailure {
  Error error;
};

struct Walk {
  std::string_view bytes;    // the mapped file
  const char* at = nullptr;  // where the field that is being read begins
  const std::string& path;

  uint64_t offset_of(const char* place) const { return uint64_t(place - bytes.data()); }

  // Advances to the next field of a message.
  bool next(protozero::pbf_reader& message) {
    at = message.data().data();
    return message.next();
  }

  [[noreturn]] void fail(std::string subject, std::string reason) const {
    throw ReadFailure{Error{.kind = ErrorKind::bad_model,
                            .phase = "open",
                            .subject = std::move(subject),
                            .reason = std::move(reason),
                            .file = path,
                            .offset = offset_of(at)}};
  }
};

inline std::string_view text_of(protozero::data_view view) { return {view.data(), view.size()}; }
inline protozero::pbf_reader message_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// What a field of this number must look like to be read as `wire`; anything else is skipped by the callers' default.
constexpr uint32_t key(uint32_t number, protozero::pbf_wire_type wire) { return protozero::tag_and_type(number, wire); }
inline constexpr auto kVarint = protozero::pbf_wire_type::varint;
inline constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
inline constexpr auto kFixed32 = protozero::pbf_wire_type::fixed32;
inline constexpr auto kFixed64 = protozero::pbf_wire_type::fixed64;

}  // namespace ompipe::model
