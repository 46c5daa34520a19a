// What compare_kernels is asked for: two libraries with their tunings, one product, and how often to make it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ompipe::bench {

struct TuningValue {
  std::string name;
  int64_t value;
};

struct Side {
  std::string library;
  std::vector<TuningValue> tuning;  // in place of the CPU's profile
};

struct Options {
  Side a, b;
  bool nbits = false;  // or float32
  bool half_scales = false;
  int64_t bits = 4, block = 32, level = 0;
  int64_t m = 512, k = 2048, n = 2048;
  int64_t pairs = 100;
  int64_t copies = 1;  // of the weights, taken in turn
};

// Prints where something is wrong, what it is and what was expected, and ends the program with status 2.
[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& expected);

// Reads the command line; ends the program for --help (status 0) and for what is wrong (status 2).
Options parse_options(int count, char** words);

}  // namespace ompipe::bench
