#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "ompipe/cli/small_file.h"
#include "ompipe/cli/tensor_file.h"

namespace {

using namespace ompipe;
using model::DType;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

// A version 1 file with this dictionary and these elements.
std::vector<std::byte> npy(std::string dictionary, const std::string& elements) {
  dictionary += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\x00';
  file += char(dictionary.size() & 0xff);
  file += char(dictionary.size() >> 8);
  return bytes_of(file + dictionary + elements);
}

std::string refusal(const std::vector<std::byte>& file) {
  const auto tensor = cli::parse_npy(file, "x.npy");
  REQUIRE(!tensor.ok());
  CHECK(tensor.error().kind == ErrorKind::usage);
  CHECK(tensor.error().file == "x.npy");
  return tensor.error().reason;
}

}  // namespace

TEST_SUITE("npy") {
  TEST_CASE("every dtype comes back as it was written") {
    const auto directory = std::filesystem::temp_directory_path() / ("npy_test_" + std::to_string(getpid()));
    std::filesystem::create_directory(directory);
    const std::string path = directory / "t.npy";
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::boolean, DType::u8, DType::i8,
                              DType::u16, DType::i16, DType::u32, DType::i32, DType::u64, DType::i64}) {
      for (const model::Shape& shape :
           {model::Shape{}, model::Shape{3}, model::Shape{2, 3}, model::Shape{0, 4}, model::Shape{1, 2, 3, 4}}) {
        auto tensor = cli::make_owned_tensor(dtype, shape, "t");
        REQUIRE(tensor.ok());
        for (uint64_t i = 0; i < tensor->view.bytes(); ++i) tensor->view.data[i] = std::byte(i * 7 + 1);
        REQUIRE(cli::write_npy(path, tensor->view).ok());
        const auto read = cli::read_tensor_file(path);
        REQUIRE(read.ok());
        CHECK(read->view.dtype == dtype);
        CHECK(std::vector<int64_t>(read->view.shape().begin(), read->view.shape().end()) == shape);
        CHECK(cli::dense_bytes(read->view) == cli::dense_bytes(tensor->view));
      }
    }
    CHECK(std::distance(std::filesystem::directory_iterator(directory), {}) == 1);  // no temporary is left
    std::filesystem::remove_all(directory);
  }

  TEST_CASE("the elements begin at a multiple of 64") {
    for (const model::Shape& shape : {model::Shape{}, model::Shape{123456, 7}, model::Shape{1, 1, 1, 1, 1, 1, 1, 1}}) {
      CHECK(cli::npy_header(DType::f32, shape).size() % 64 == 0);
    }
  }

  TEST_CASE("a strided view is written row-major") {
    const float values[] = {0, 1, 2, 3, 4, 5};
    const int64_t shape[] = {2, 3};
    exec::Tensor view = exec::make_constant(DType::f32, shape, values);
    std::swap(view.layout.dims[0], view.layout.dims[1]);
    std::swap(view.layout.strides[0], view.layout.strides[1]);
    const std::vector<std::byte> dense = cli::dense_bytes(view);
    const float expected[] = {0, 3, 1, 4, 2, 5};
    REQUIRE(dense.size() == sizeof expected);
    CHECK(std::memcmp(dense.data(), expected, sizeof expected) == 0);
  }

  TEST_CASE("what NumPy writes in other ways is read") {
    const std::string two(8, 'x');
    CHECK(cli::parse_npy(npy("{\"shape\": (2,), \"fortran_order\": False, \"descr\": \"<f4\"}", two), "").ok());
    CHECK(cli::parse_npy(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2L,), }   ", two), "")
              .ok());  // order of one dimension
    CHECK(cli::parse_npy(npy("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", two), "").ok());
  }

  TEST_CASE("damage is named") {
    const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
    CHECK(cli::parse_npy(npy(good, std::string(16, 'x')), "").ok());
    CHECK(refusal(bytes_of("")) == "does not begin as a .npy file does");
    CHECK(refusal(bytes_of("PK\x03\x04 something else")) == "does not begin as a .npy file does");
    CHECK(refusal(npy(good, std::string(15, 'x'))) == "holds 15 bytes of elements, its shape says 16");
    CHECK(refusal(npy(good, std::string(17, 'x'))) == "holds 17 bytes of elements, its shape says 16");
    CHECK(refusal(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "")).starts_with("has dtype '>f4'"));
    CHECK(refusal(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "")).starts_with("has dtype '<c8'"));
    CHECK(refusal(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", ""))
              .starts_with("has dtype"));
    CHECK(refusal(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", std::string(16, 'x'))) ==
          "is in Fortran order, expected C order");
    CHECK(refusal(npy("{'descr': '<f4', 'shape': (2,), }", "")) ==
          "has a header without descr, fortran_order and shape");
    CHECK(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "")) ==
          "has a shape that is no tuple of sizes");
    CHECK(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, }", "")) ==
          "has a shape that is no tuple of sizes");
    CHECK(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "")) ==
          "has a shape that is no tuple of sizes");
    CHECK(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296,4), }", "")) ==
          "has a shape of more than 2^64 bytes");
    CHECK(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "xxxx")) ==
          "has more than 8 dimensions");
  }

  TEST_CASE("a file cut anywhere is refused, never read beyond") {
    const std::vector<std::byte> whole =
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", std::string(16, 'x'));
    for (size_t length = 0; length < whole.size(); ++length) {
      const std::vector<std::byte> cut(whole.begin(), whole.begin() + ptrdiff_t(length));
      CHECK(!cli::parse_npy(cut, "x.npy").ok());
    }
  }

  TEST_CASE("only .npy and .pb are tensors; a directory is no file") {
    CHECK(cli::read_tensor_file("/tmp/x.txt").error().kind == ErrorKind::usage);
    CHECK(cli::read_tensor_file("/nowhere/x.npy").error().kind == ErrorKind::environment);
    const auto directory = std::filesystem::temp_directory_path() / ("dir_" + std::to_string(getpid()) + ".npy");
    std::filesystem::create_directory(directory);
    CHECK(cli::read_tensor_file(directory).error().kind == ErrorKind::environment);
    std::filesystem::remove(directory);
  }
}
