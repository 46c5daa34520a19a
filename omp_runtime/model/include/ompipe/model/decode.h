// Elements that an ONNX file holds as varints, turned into little-endian bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ompipe/arenas/error.h"
#include "ompipe/model/types.h"

namespace ompipe::model {

// Writes one integer (float16 and bfloat16 too: their bits) as an element of `dtype`.
void store_element(uint64_t value, DType dtype, uint8_t* out);

// Decodes Encoding::packed_varint: exactly `count` elements into count * dtype_bytes(dtype) bytes at `out`. Any thread.
// Errors: bad_model naming `tensor` when the bytes hold fewer or more elements, or a broken varint.
Status decode_varints(std::span<const uint8_t> packed, DType dtype, uint64_t count, uint8_t* out,
                      const std::string& tensor);

}  // namespace ompipe::model
