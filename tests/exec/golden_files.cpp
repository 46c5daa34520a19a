#include "golden_files.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

namespace ompipe::exec::testing {

nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::string(OMPIPE_GOLDENS) + "/" + name + ".json");
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

std::vector<float> read_npy(const std::string& name) {
  std::ifstream file(std::string(OMPIPE_GOLDENS) + "/" + name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(bytes.size() > 10);
  const size_t header = 10 + size_t(uint8_t(bytes[8])) + 256 * size_t(uint8_t(bytes[9]));
  REQUIRE(bytes.size() >= header);
  std::vector<float> values((bytes.size() - header) / 4);
  std::memcpy(values.data(), bytes.data() + header, values.size() * 4);
  return values;
}

double norm_of(const std::vector<float>& values) { return distance(values, std::vector<float>(values.size())); }

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
  return std::sqrt(sum);
}

}  // namespace ompipe::exec::testing
