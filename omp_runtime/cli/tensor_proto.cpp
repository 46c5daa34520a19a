#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <string_view>

#include "ompipe/cli/tensor_file.h"
#include "ompipe/kernels/strided.h"

namespace ompipe::cli {

namespace {

using model::DType;

// onnx.proto, message TensorProto.
enum class Field : protozero::pbf_tag_type {
  dims = 1,
  data_type = 2,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
  data_location = 14,
};

Error proto_error(const std::string& path, std::string reason) {
  return {.kind = ErrorKind::usage, .phase = "TensorProto", .reason = std::move(reason), .file = path};
}

// The message's fields, elements already little-endian bytes of their own type.
struct Fields {
  model::Shape dims;
  DType dtype = DType::undefined;
  std::string_view raw;
  bool has_raw = false, external = false;
  std::vector<std::byte> typed;
};

template <class Stored, class Value>
void append(std::vector<std::byte>& bytes, Value value) {
  const auto stored = static_cast<Stored>(value);
  const auto* begin = reinterpret_cast<const std::byte*>(&stored);
  bytes.insert(bytes.end(), begin, begin + sizeof(Stored));
}

// int32_data holds every type of at most 32 bits; float16 and bfloat16 as their bits.
void append_int32(Fields& fields, int32_t value) {
  switch (model::dtype_bytes(fields.dtype)) {
    case 1:
      append<uint8_t>(fields.typed, value);
      break;
    case 2:
      append<uint16_t>(fields.typed, value);
      break;
    default:
      append<uint32_t>(fields.typed, value);
      break;
  }
}

// Repeated numbers come packed or one at a time.
template <class Each>
void each_varint(protozero::pbf_reader& reader, Each each) {
  if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const int64_t value : reader.get_packed_int64()) each(value);
  } else {
    each(reader.get_int64());
  }
}

void read_floats(protozero::pbf_reader& reader, Fields& fields) {
  if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const float value : reader.get_packed_float()) append<float>(fields.typed, value);
  } else {
    append<float>(fields.typed, reader.get_float());
  }
}

void read_doubles(protozero::pbf_reader& reader, Fields& fields) {
  if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const double value : reader.get_packed_double()) append<double>(fields.typed, value);
  } else {
    append<double>(fields.typed, reader.get_double());
  }
}

bool holds(Field field, DType dtype) {
  switch (field) {
    case Field::float_data:
      return dtype == DType::f32;
    case Field::double_data:
      return dtype == DType::f64;
    case Field::int64_data:
      return dtype == DType::i64;
    case Field::uint64_data:
      return dtype == DType::u64 || dtype == DType::u32;
    default:
      return model::dtype_bytes(dtype) <= 4 && dtype != DType::f32 && dtype != DType::u32;
  }
}

void read_typed(protozero::pbf_reader& reader, Field field, Fields& fields) {
  switch (field) {
    case Field::float_data:
      return read_floats(reader, fields);
    case Field::double_data:
      return read_doubles(reader, fields);
    case Field::int32_data:
      return each_varint(reader, [&](int64_t value) { append_int32(fields, int32_t(value)); });
    default:
      each_varint(reader, [&](int64_t value) {
        if (fields.dtype == DType::u32) {
          append<uint32_t>(fields.typed, value);
        } else {
          append<int64_t>(fields.typed, value);
        }
      });
  }
}

// Empty: read. The dtype may stand after the elements in the file, so it is looked for first.
std::string read_fields(std::string_view message, Fields& fields) {
  for (protozero::pbf_reader reader(message.data(), message.size()); reader.next();) {
    if (Field(reader.tag()) == Field::data_type) {
      fields.dtype = DType(reader.get_int32());
    } else {
      reader.skip();
    }
  }
  if (model::dtype_bytes(fields.dtype) == 0) {
    return "has data_type " + std::to_string(int(fields.dtype)) + ", which is none that this runtime holds";
  }
  for (protozero::pbf_reader reader(message.data(), message.size()); reader.next();) {
    const Field field{reader.tag()};
    switch (field) {
      case Field::dims:
        each_varint(reader, [&](int64_t dim) { fields.dims.push_back(dim); });
        break;
      case Field::raw_data: {
        const protozero::data_view view = reader.get_view();
        fields.raw = {view.data(), view.size()};
        fields.has_raw = true;
        break;
      }
      case Field::float_data:
      case Field::double_data:
      case Field::int32_data:
      case Field::int64_data:
      case Field::uint64_data:
        if (!holds(field, fields.dtype)) return "has elements in a field that is not its data_type's";
        read_typed(reader, field, fields);
        break;
      case Field::string_data:
        return "holds strings";
      case Field::data_location:
        fields.external = reader.get_int32() != 0;
        break;
      default:
        reader.skip();
    }
  }
  return {};
}

std::string check_dims(const model::Shape& dims, uint64_t& bytes) {
  if (dims.size() > size_t(kernels::kMaxRank)) return "has more than 8 dimensions";
  for (const int64_t dim : dims) {
    if (dim < 0) return "has a negative dimension";
    if (__builtin_mul_overflow(bytes, uint64_t(dim), &bytes)) return "has a shape of more than 2^64 bytes";
  }
  return {};
}

}  // namespace

Result<exec::HeldTensor> parse_tensor_proto(std::span<const std::byte> bytes, const std::string& path) {
  Fields fields;
  std::string refused;
  try {
    refused = read_fields({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, fields);
  } catch (const protozero::exception& damage) {
    return proto_error(path, std::string("is no TensorProto: ") + damage.what());
  }
  if (!refused.empty()) return proto_error(path, refused);
  if (fields.external) return proto_error(path, "has external data, expected its own");
  uint64_t wanted = model::dtype_bytes(fields.dtype);
  if (refused = check_dims(fields.dims, wanted); !refused.empty()) return proto_error(path, refused);
  const uint64_t found = fields.has_raw ? fields.raw.size() : fields.typed.size();
  if (found != wanted) {
    return proto_error(path,
                       "holds " + std::to_string(found) + " bytes of elements, its dims say " + std::to_string(wanted));
  }
  Result<exec::HeldTensor> tensor = make_owned_tensor(fields.dtype, fields.dims, path);
  if (!tensor) return tensor;
  if (found != 0)
    std::memcpy(tensor->view.data, fields.has_raw ? static_cast<const void*>(fields.raw.data()) : fields.typed.data(),
                found);
  return tensor;
}

}  // namespace ompipe::cli
