#include <doctest/doctest.h>

#include <cstring>
#include <protozero/pbf_writer.hpp>

#include "ompipe/cli/tensor_file.h"

namespace {

using namespace ompipe;
using model::DType;

// onnx.proto, message TensorProto.
enum {
  kDims = 1,
  kType = 2,
  kFloat = 4,
  kInt32 = 5,
  kString = 6,
  kInt64 = 7,
  kName = 8,
  kRaw = 9,
  kDouble = 10,
  kUint64 = 11,
  kLocation = 14
};

struct Message {
  std::string data;
  protozero::pbf_writer writer{data};
  Message(DType dtype, const std::vector<int64_t>& dims, bool packed_dims = false) {
    if (packed_dims) {
      writer.add_packed_int64(kDims, dims.begin(), dims.end());
    } else {
      for (const int64_t dim : dims) writer.add_int64(kDims, dim);
    }
    writer.add_int32(kType, int32_t(dtype));
    writer.add_string(kName, "a name");
  }
  Result<exec::HeldTensor> parse() const { return cli::parse_tensor_proto(std::as_bytes(std::span(data)), "x.pb"); }
  std::string refusal() const {
    const auto tensor = parse();
    REQUIRE(!tensor.ok());
    CHECK(tensor.error().kind == ErrorKind::usage);
    return tensor.error().reason;
  }
};

template <class T>
void check_elements(const Result<exec::HeldTensor>& tensor, const std::vector<T>& expected) {
  REQUIRE(tensor.ok());
  const std::vector<std::byte> bytes = cli::dense_bytes(tensor->view);
  REQUIRE(bytes.size() == expected.size() * sizeof(T));
  CHECK(std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0);
}

}  // namespace

TEST_SUITE("tensor_proto") {
  TEST_CASE("raw data of any type") {
    Message message(DType::f16, {2, 2}, true);
    const uint16_t bits[] = {0x3c00, 0x4000, 0xbc00, 0x0001};
    message.writer.add_bytes(kRaw, reinterpret_cast<const char*>(bits), sizeof bits);
    const auto tensor = message.parse();
    check_elements<uint16_t>(tensor, {0x3c00, 0x4000, 0xbc00, 0x0001});
    CHECK(tensor->view.dim(0) == 2);
  }

  TEST_CASE("typed fields, packed or one at a time") {
    const std::vector<float> floats = {1.5f, -2.0f};
    Message packed(DType::f32, {2});
    packed.writer.add_packed_float(kFloat, floats.begin(), floats.end());
    check_elements(packed.parse(), floats);
    Message single(DType::f32, {2});
    for (const float value : floats) single.writer.add_float(kFloat, value);
    check_elements(single.parse(), floats);

    const std::vector<int64_t> longs = {-1, 1LL << 40};
    Message wide(DType::i64, {2});
    wide.writer.add_packed_int64(kInt64, longs.begin(), longs.end());
    check_elements(wide.parse(), longs);

    const std::vector<int32_t> small = {-1, 200, 7};
    Message bytes(DType::i8, {3});
    bytes.writer.add_packed_int32(kInt32, small.begin(), small.end());
    check_elements<int8_t>(bytes.parse(), {-1, int8_t(200), 7});

    const std::vector<double> doubles = {0.25};
    Message scalar(DType::f64, {});
    scalar.writer.add_packed_double(kDouble, doubles.begin(), doubles.end());
    check_elements(scalar.parse(), doubles);

    const std::vector<uint64_t> unsigned_values = {4000000000u};
    Message u32(DType::u32, {1});
    u32.writer.add_packed_uint64(kUint64, unsigned_values.begin(), unsigned_values.end());
    check_elements<uint32_t>(u32.parse(), {4000000000u});
  }

  TEST_CASE("the type may stand after the elements") {
    std::string data;
    protozero::pbf_writer writer(data);
    writer.add_int32(kInt32, 5);
    writer.add_int32(kType, int32_t(DType::boolean));
    writer.add_int64(kDims, 1);
    check_elements<uint8_t>(cli::parse_tensor_proto(std::as_bytes(std::span(data)), "x.pb"), {5});
  }

  TEST_CASE("what can't be an input is named") {
    CHECK(Message(DType::string, {1}).refusal().starts_with("has data_type 8"));
    CHECK(Message(DType(99), {1}).refusal().starts_with("has data_type 99"));
    CHECK(Message(DType::f32, {2}).refusal() == "holds 0 bytes of elements, its dims say 8");
    CHECK(Message(DType::f32, {-2}).refusal() == "has a negative dimension");
    CHECK(Message(DType::f32, {1LL << 40, 1LL << 40}).refusal() == "has a shape of more than 2^64 bytes");
    CHECK(Message(DType::f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}).refusal() == "has more than 8 dimensions");
    Message wrong_field(DType::f32, {1});
    wrong_field.writer.add_int32(kInt32, 1);
    CHECK(wrong_field.refusal() == "has elements in a field that is not its data_type's");
    Message external(DType::f32, {1});
    external.writer.add_int32(kLocation, 1);
    CHECK(external.refusal() == "has external data, expected its own");
  }

  TEST_CASE("a message cut anywhere is refused or empty of elements, never read beyond") {
    Message message(DType::f32, {2});
    const float values[] = {1, 2};
    message.writer.add_bytes(kRaw, reinterpret_cast<const char*>(values), sizeof values);
    for (size_t length = 0; length < message.data.size(); ++length) {
      const std::string cut = message.data.substr(0, length);
      CHECK(!cli::parse_tensor_proto(std::as_bytes(std::span(cut)), "x.pb").ok());
    }
  }
}
