#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>

#include "invocation.h"
#include "ompipe/cli/tensor_file.h"
#include "run_outputs.h"

namespace {

using namespace ompipe;
using model::DType;

exec::NamedTensor named(const std::string& name, float value) {
  auto tensor = cli::make_owned_tensor(DType::f32, {1}, name);
  REQUIRE(tensor.ok());
  *tensor->view.write<float>() = value;
  return {name, *std::move(tensor)};
}

exec::HeldTensor logits(DType dtype, const model::Shape& shape, const std::vector<uint16_t>& bits) {
  auto tensor = cli::make_owned_tensor(dtype, shape, "logits");
  REQUIRE(tensor.ok());
  std::copy(bits.begin(), bits.end(), tensor->view.write<uint16_t>());
  return *std::move(tensor);
}

}  // namespace

TEST_SUITE("outputs") {
  TEST_CASE("file names are safe, and clashes get numbers") {
    const std::vector<std::string> names = {"logits", "a/b", "a:b", "../../etc/passwd", "", "a_b", "\xc3\xa9t\xc3\xa9"};
    CHECK(cli::output_file_names(names) == std::vector<std::string>{"logits.npy", "a_b.npy", "a_b_2.npy",
                                                                    ".._.._etc_passwd.npy", "_.npy", "a_b_3.npy",
                                                                    "__t__.npy"});
    const std::string file = cli::output_file_names({std::string(1000, 'x')})[0];
    CHECK(file.size() < 200);
  }

  TEST_CASE("outputs land in their directory, one file each, nothing else") {
    const auto directory = std::filesystem::temp_directory_path() / ("outputs_" + std::to_string(getpid()));
    REQUIRE(cli::write_outputs(directory / "deep", {named("a/b", 1), named("c", 2)}).ok());
    CHECK(*cli::read_tensor_file(directory / "deep" / "a_b.npy")->view.read<float>() == 1);
    CHECK(*cli::read_tensor_file(directory / "deep" / "c.npy")->view.read<float>() == 2);
    CHECK(std::distance(std::filesystem::directory_iterator(directory / "deep"), {}) == 2);
    // A file where the directory should be is an error, and stays as it is.
    CHECK(cli::write_outputs(directory / "deep" / "c.npy", {named("a", 1)}).error().kind == ErrorKind::environment);
    std::filesystem::remove_all(directory);
  }

  TEST_CASE("the digest depends on every output") {
    const std::string one = cli::output_digest({named("a", 1), named("b", 2)});
    CHECK(one.starts_with("xxh3-128/1M:"));
    CHECK(one == cli::output_digest({named("a", 1), named("b", 2)}));
    CHECK(one != cli::output_digest({named("a", 1), named("b", 3)}));
    CHECK(one != cli::output_digest({named("a", 1)}));
  }

  TEST_CASE("the greedy token is the first largest of the last row") {
    const auto f32 = [](const model::Shape& shape, const std::vector<float>& values) {
      auto tensor = cli::make_owned_tensor(DType::f32, shape, "logits");
      std::copy(values.begin(), values.end(), tensor->view.write<float>());
      return *std::move(tensor);
    };
    CHECK(*cli::greedy_token(f32({1, 2, 3}, {9, 9, 9, 1, 3, 3}).view) == 1);
    CHECK(*cli::greedy_token(f32({1, 1, 2}, {-5, -4}).view) == 1);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(*cli::greedy_token(f32({1, 1, 3}, {nan, -1, nan}).view) == 1);
    // 1.0, 2.0, -inf, and the smallest subnormal.
    CHECK(*cli::greedy_token(logits(DType::f16, {1, 4}, {0x3c00, 0x4000, 0xfc00, 0x0001}).view) == 1);
    CHECK(*cli::greedy_token(logits(DType::f16, {1, 2}, {0x8001, 0x0000}).view) == 1);
    CHECK(*cli::greedy_token(logits(DType::bf16, {1, 3}, {0x3f80, 0xc000, 0x4000}).view) == 2);
    CHECK(cli::greedy_token(logits(DType::i16, {1, 1}, {1}).view).error().kind == ErrorKind::bad_model);
    CHECK(!cli::greedy_token(f32({1, 0, 3}, {}).view).ok());
  }
}
