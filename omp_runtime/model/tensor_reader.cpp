#include "tensor_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "ompipe/model/decode.h"
#include "ompipe/model/infer.h"
#include "onnx_fields.h"
#include "walk.h"

namespace ompipe::model {
namespace {

// How a typed field of TensorProto holds its elements.
struct TypedField {
  uint32_t number;
  protozero::pbf_wire_type element;  // wire type of one element
};

// What a first pass saw of one typed field.
struct Sighting {
  int packed_pieces = 0;
  int single_elements = 0;
  ByteRange last_piece;
};

std::optional<TypedField> field_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return TypedField{field::tensor_float_data, kFixed32};
    case DType::f64:
      return TypedField{field::tensor_double_data, kFixed64};
    case DType::i64:
      return TypedField{field::tensor_int64_data, kVarint};
    case DType::u32:
    case DType::u64:
      return TypedField{field::tensor_uint64_data, kVarint};
    case DType::string:
    case DType::undefined:
      return std::nullopt;
    default:
      return TypedField{field::tensor_int32_data, kVarint};
  }
}

void read_external_entry(std::string_view message, TensorRecord& tensor, Walk& walk) {
  std::string_view name, value;
  auto entry = message_of(message);
  while (walk.next(entry)) {
    switch (entry.tag_and_type()) {
      case key(field::entry_key, kBytes):
        name = text_of(entry.get_view());
        break;
      case key(field::entry_value, kBytes):
        value = text_of(entry.get_view());
        break;
      default:
        entry.skip();
    }
  }
  if (name == "location") tensor.location = value;
  if (name == "offset") tensor.offset = value;
  if (name == "length") tensor.length = value;
  if (name == "checksum") tensor.checksum = value;
}

// Checks that the number of elements and of bytes can be counted.
void check_dims(const TensorRecord& tensor, Walk& walk) {
  if (tensor.dims.size() > size_t(kMaxRank)) {
    walk.fail(tensor.name, fmt::format("tensor of rank {}, at most {} is supported", tensor.dims.size(), kMaxRank));
  }
  int64_t count = int64_t(dtype_bytes(tensor.dtype)) + 1;
  for (int64_t dim : tensor.dims) {
    if (dim < 0) walk.fail(tensor.name, fmt::format("dims {} hold a negative number", shape_text(tensor.dims)));
    if (dim != 0 && __builtin_mul_overflow(count, dim, &count)) {
      walk.fail(tensor.name, fmt::format("dims {} overflow the number of bytes", shape_text(tensor.dims)));
    }
  }
}

void append_elements(protozero::pbf_reader& message, TypedField typed, const TensorRecord& tensor,
                     std::vector<uint8_t>& elements, Walk& walk) {
  const size_t width = dtype_bytes(tensor.dtype);
  auto append = [&](uint64_t value) {
    if (elements.size() + width > kMaxLooseBytes) {
      walk.fail(tensor.name,
                fmt::format("more than {} bytes of elements that are not in one packed field; write the tensor "
                            "as raw_data or packed",
                            kMaxLooseBytes));
    }
    elements.resize(elements.size() + width);
    store_element(value, tensor.dtype, elements.data() + elements.size() - width);
  };
  if (message.wire_type() == kBytes) {
    auto piece = message_of(text_of(message.get_view()));
    // A packed piece holds bare elements: read them with the primitives below the reader.
    const char* at = piece.data().data();
    const char* end = at + piece.data().size();
    while (at != end) {
      if (typed.element == kVarint) {
        append(protozero::decode_varint(&at, end));
        continue;
      }
      uint64_t value = 0;
      if (size_t(end - at) < width) walk.fail(tensor.name, "a packed field ends within an element");
      std::memcpy(&value, at, width);
      append(value);
      at += width;
    }
  } else if (typed.element == kVarint) {
    append(message.get_uint64());
  } else if (typed.element == kFixed32) {
    append(message.get_fixed32());
  } else {
    append(message.get_fixed64());
  }
}

std::vector<uint8_t> decode_loose(std::string_view bytes, TypedField typed, const TensorRecord& tensor, Walk& walk) {
  std::vector<uint8_t> elements;
  auto message = message_of(bytes);
  while (walk.next(message)) {
    if (message.tag() == typed.number && (message.wire_type() == kBytes || message.wire_type() == typed.element)) {
      append_elements(message, typed, tensor, elements, walk);
    } else {
      message.skip();
    }
  }
  return elements;
}

}  // namespace

DType known_dtype(int32_t stated) {
  if (stated < 1 || stated > int32_t(DType::bf16)) return DType::undefined;
  const DType dtype = DType(stated);
  return dtype == DType::string || dtype_bytes(dtype) != 0 ? dtype : DType::undefined;
}

uint64_t decoded_bytes(const TensorRecord& tensor) {
  return uint64_t(element_count(tensor.dims)) * dtype_bytes(tensor.dtype);
}

TensorRecord read_tensor(std::string_view bytes, const std::string& fallback_name, Walk& walk) {
  TensorRecord tensor;
  std::optional<ByteRange> raw;
  Sighting sightings[field::tensor_data_location + 1];
  auto message = message_of(bytes);
  auto range_of = [&](protozero::data_view view) { return ByteRange{walk.offset_of(view.data()), view.size()}; };
  while (walk.next(message)) {
    switch (message.tag_and_type()) {
      case key(field::tensor_dims, kVarint):
        tensor.dims.push_back(message.get_int64());
        break;
      case key(field::tensor_dims, kBytes):
        for (int64_t dim : message.get_packed_int64()) tensor.dims.push_back(dim);
        break;
      case key(field::tensor_data_type, kVarint):
        tensor.stated_dtype = message.get_int32();
        break;
      case key(field::tensor_name, kBytes):
        tensor.name_view = text_of(message.get_view());
        tensor.name = tensor.name_view;
        break;
      case key(field::tensor_raw_data, kBytes):
        raw = range_of(message.get_view());
        break;
      case key(field::tensor_data_location, kVarint):
        tensor.external = message.get_int32() == 1;
        break;
      case key(field::tensor_external_data, kBytes):
        read_external_entry(text_of(message.get_view()), tensor, walk);
        break;
      case key(field::tensor_segment, kBytes):
        walk.fail(tensor.name, "segmented tensors are not supported");
      case key(field::tensor_float_data, kBytes):
      case key(field::tensor_int32_data, kBytes):
      case key(field::tensor_int64_data, kBytes):
      case key(field::tensor_double_data, kBytes):
      case key(field::tensor_uint64_data, kBytes): {
        Sighting& seen = sightings[message.tag()];
        seen.last_piece = range_of(message.get_view());
        if (seen.last_piece.length != 0) ++seen.packed_pieces;
        break;
      }
      case key(field::tensor_float_data, kFixed32):
      case key(field::tensor_int32_data, kVarint):
      case key(field::tensor_int64_data, kVarint):
      case key(field::tensor_double_data, kFixed64):
      case key(field::tensor_uint64_data, kVarint):
        ++sightings[message.tag()].single_elements;
        message.skip();
        break;
      default:
        message.skip();
    }
  }
  walk.at = bytes.data();
  if (tensor.name.empty()) tensor.name = fallback_name;
  tensor.dtype = known_dtype(tensor.stated_dtype);
  if (tensor.stated_dtype == 0) walk.fail(tensor.name, "tensor without an element type");
  check_dims(tensor, walk);
  const std::optional<TypedField> typed = field_of(tensor.dtype);
  if (tensor.external || !typed) return tensor;

  const Sighting& seen = sightings[typed->number];
  if (raw) {
    tensor.inline_range = raw;
  } else if (seen.packed_pieces == 1 && seen.single_elements == 0) {
    tensor.inline_range = seen.last_piece;
    tensor.encoding = typed->element == kVarint ? Encoding::packed_varint : Encoding::raw;
  } else {
    tensor.loose = decode_loose(bytes, *typed, tensor, walk);
  }
  return tensor;
}

}  // namespace ompipe::model
