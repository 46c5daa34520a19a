#include "generate_spec.h"

#include <algorithm>
#include <cstring>

#include "ompipe/arenas/error.h"

namespace ompipe::cli {
namespace {

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  std::string raw(values.size() * sizeof(T), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

std::string add_constant(std::vector<ConstantSpec>& constants, ConstantSpec made) {
  const auto same_name = [&](const ConstantSpec& other) { return other.name == made.name; };
  const auto found = std::find_if(constants.begin(), constants.end(), same_name);
  if (found == constants.end()) {
    constants.push_back(made);
  } else {
    OMPIPE_CHECK(found->raw == made.raw && found->dims == made.dims, "two constants with one name");
  }
  return made.name;
}

}  // namespace

std::string ModelSpec::node(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                            std::vector<AttributeSpec> attributes, const std::string& domain) {
  nodes.push_back({output, op, domain, std::move(inputs), {output}, std::move(attributes)});
  return output;
}

std::string ModelSpec::int64s(const std::string& name, const std::vector<int64_t>& values, bool scalar) {
  model::Shape dims;
  if (!scalar) dims.push_back(int64_t(values.size()));
  return add_constant(constants, {name, model::DType::i64, dims, raw_bytes(values)});
}

std::string ModelSpec::scalar(const std::string& name, float value) {
  return add_constant(constants, {name, model::DType::f32, {}, raw_bytes(std::vector<float>{value})});
}

std::string ModelSpec::weight(WeightSpec made) {
  weights.push_back(std::move(made));
  return weights.back().name;
}

model::Dim symbol(const char* name) { return {std::nullopt, name}; }
model::Dim fixed(int64_t value) { return {value, {}}; }

}  // namespace ompipe::cli
