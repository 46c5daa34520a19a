#include "ompipe/model/decode.h"

#include <fmt/format.h>

#include <cstring>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace ompipe::model {

void store_element(uint64_t value, DType dtype, uint8_t* out) {
  if (dtype == DType::boolean) value = value != 0;
  std::memcpy(out, &value, dtype_bytes(dtype));  // little-endian: the low bytes come first
}

Status decode_varints(std::span<const uint8_t> packed, DType dtype, uint64_t count, uint8_t* out,
                      const std::string& tensor) {
  auto fail = [&](std::string reason) {
    return Status(
        Error{.kind = ErrorKind::bad_model, .phase = "decode", .subject = tensor, .reason = std::move(reason)});
  };
  const char* at = reinterpret_cast<const char*>(packed.data());
  const char* end = at + packed.size();
  const size_t width = dtype_bytes(dtype);
  uint64_t done = 0;
  try {
    for (; done < count && at != end; ++done)
      store_element(protozero::decode_varint(&at, end), dtype, out + done * width);
  } catch (const protozero::exception&) {
    return fail(fmt::format("element {} of {} is not a whole varint", done, count));
  }
  if (done != count || at != end) {
    return fail(
        fmt::format("{} {} elements expected, found {}", count, dtype_name(dtype), done < count ? "fewer" : "more"));
  }
  return ok_status();
}

}  // namespace ompipe::model
