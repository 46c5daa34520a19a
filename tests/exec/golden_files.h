// Goldens as the tests use them: the files, distances between results, and the generator behind operands that no file
// holds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ompipe::exec::testing {

// tests/goldens/NAME.json. An absent file fails the test, here and below.
nlohmann::json golden(const std::string& name);

// The elements of tests/goldens/NAME, a float32 .npy file of format 1.
std::vector<float> read_npy(const std::string& name);

double norm_of(const std::vector<float>& values);

// Norm of the difference. The two must be equally long.
double distance(const std::vector<float>& a, const std::vector<float>& b);

// Numerical Recipes' 32-bit generator, as in experiments/peers/ort/inputs.js.
class Generator {
 public:
  explicit Generator(uint32_t seed) : x_(seed) {}
  uint32_t next() { return x_ = 1664525u * x_ + 1013904223u; }
  // In [-1, 1), exactly.
  double uniform() { return double(next()) / 2147483648.0 - 1; }

 private:
  uint32_t x_;
};

}  // namespace ompipe::exec::testing
