// Models that benchmarks run, generated when they are asked for and removed at the program's end.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ompipe/arenas/error.h"

namespace ompipe::bench {

// Ends the program with the error's message: a benchmark can't go on without what failed.
inline void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message().c_str());
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result.ok()) must(Status(result.error()));
  return std::move(*result);
}

// Paths of models in a temporary folder. Thread rule: one thread.
class Models {
 public:
  Models();
  ~Models();

  // A preset's name; or "one-node": y = -x of one number, no weight; or "chain-N": N products of x [1, 16] with weights
  // [16, 16], each a large object of its own.
  std::string path(const std::string& model);

 private:
  std::string root_;
};

// The program's own.
Models& models();

}  // namespace ompipe::bench
