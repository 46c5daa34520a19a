#include "ompipe/model/graph.h"

#include <cstring>

#include "ompipe/arenas/error.h"

namespace ompipe::model {
namespace {

template <class T>
std::vector<int64_t> widened(const std::vector<uint8_t>& bytes) {
  std::vector<int64_t> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = int64_t(element);
  }
  return values;
}

}  // namespace

bool is_integer(DType type) {
  switch (type) {
    case DType::u8:
    case DType::i8:
    case DType::u16:
    case DType::i16:
    case DType::i32:
    case DType::i64:
    case DType::boolean:
    case DType::u32:
    case DType::u64:
      return true;
    default:
      return false;
  }
}

std::vector<int64_t> ConstantTensor::as_int64() const {
  switch (dtype) {
    case DType::u8:
    case DType::boolean:
      return widened<uint8_t>(bytes);
    case DType::i8:
      return widened<int8_t>(bytes);
    case DType::u16:
      return widened<uint16_t>(bytes);
    case DType::i16:
      return widened<int16_t>(bytes);
    case DType::i32:
      return widened<int32_t>(bytes);
    case DType::i64:
      return widened<int64_t>(bytes);
    case DType::u32:
      return widened<uint32_t>(bytes);
    case DType::u64:
      return widened<uint64_t>(bytes);
    default:
      break;
  }
  fail_check("integer dtype", __FILE__, __LINE__, dtype_name(dtype));
}

Shape Value::dims() const {
  Shape numbers;
  for (const Dim& dim : shape) numbers.push_back(*dim.value);
  return numbers;
}

const AttributeValue* Node::attribute(const char* wanted) const {
  for (const Attribute& attribute : attributes) {
    if (attribute.name == wanted) return &attribute.value;
  }
  return nullptr;
}

SubgraphId Node::graph_attribute(const char* wanted) const {
  const AttributeValue* value = attribute(wanted);
  const auto* held = value ? std::get_if<GraphRef>(value) : nullptr;
  return held ? held->graph : kNone;
}

int64_t Node::int_attribute(const char* wanted, int64_t absent) const {
  const AttributeValue* value = attribute(wanted);
  const int64_t* number = value ? std::get_if<int64_t>(value) : nullptr;
  return number ? *number : absent;
}

float Node::float_attribute(const char* wanted, float absent) const {
  const AttributeValue* value = attribute(wanted);
  const float* number = value ? std::get_if<float>(value) : nullptr;
  return number ? *number : absent;
}

std::string Node::string_attribute(const char* wanted, const std::string& absent) const {
  const AttributeValue* value = attribute(wanted);
  const std::string* text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? *text : absent;
}

std::vector<int64_t> Node::ints_attribute(const char* wanted) const {
  const AttributeValue* value = attribute(wanted);
  const std::vector<int64_t>* numbers = value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  return numbers ? *numbers : std::vector<int64_t>();
}

}  // namespace ompipe::model
