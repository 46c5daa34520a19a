// One of the two that are compared: a build of the kernels' shared library, loaded, with its own form of the product.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "bench_memory.h"
#include "ompipe_kernels.h"
#include "options.h"

namespace ompipe::bench {

// A function found at run time; becomes a pointer of the type that is asked for.
struct Symbol {
  void* address;
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
};

// A loaded library, and what of it every comparison calls. A path that is no such library ends the program.
class KernelLibrary {
  struct Close {
    void operator()(void* handle) const;
  };

 public:
  explicit KernelLibrary(const std::string& path);
  Symbol symbol(const char* name) const;
  // Ends the program unless the library's `what` went well.
  void check(ompipe_status status, const std::string& what, const char* reason) const;

 private:
  std::string path_;
  std::unique_ptr<void, Close> handle_;

 public:
  decltype(&ompipe_kernels_version) version = symbol("ompipe_kernels_version");
  decltype(&ompipe_status_text) status_text = symbol("ompipe_status_text");
  decltype(&ompipe_isa_name) isa_name = symbol("ompipe_isa_name");
  decltype(&ompipe_matmul_layout_size) layout_size = symbol("ompipe_matmul_layout_size");
  decltype(&ompipe_matmul_layout_init) layout_init = symbol("ompipe_matmul_layout_init");
  decltype(&ompipe_matmul_layout_sizes) layout_sizes = symbol("ompipe_matmul_layout_sizes");
  decltype(&ompipe_matmul_layout_isa) layout_isa = symbol("ompipe_matmul_layout_isa");
  decltype(&ompipe_matmul_pack) pack = symbol("ompipe_matmul_pack");
  decltype(&ompipe_matmul_scratch) scratch = symbol("ompipe_matmul_scratch");
  decltype(&ompipe_call_size) call_size = symbol("ompipe_call_size");
  decltype(&ompipe_matmul_call_init) call_init = symbol("ompipe_matmul_call_init");
  decltype(&ompipe_call_run) call_run = symbol("ompipe_call_run");
};

// What both read, and the result, which both write: float32 A [m, K], B's bytes and scales as in a model's file.
struct Operands {
  Operands(const Options& options, const ompipe_matmul_sizes& sizes);

  BenchMemory a, b, scales, out;
};

// The product of one side. Not copied or moved: calls stay where they were made.
class Contender {
 public:
  // Loads the library and lays the weight out.
  Contender(const Side& side, const Options& options);
  const ompipe_matmul_sizes& sizes() const { return sizes_; }
  // Path, version, instruction set and tuning.
  std::string description() const;

  // Packs every copy of the weights and binds a call to each. `operands` outlive the contender's runs.
  void prepare(const Options& options, const Operands& operands);
  // The whole product on this thread, with that copy of the weights.
  void run(int64_t copy);

 private:
  void tune();
  void bind(const Options& options, const Operands& operands);

  Side side_;
  KernelLibrary library_;
  std::unique_ptr<BenchMemory> tuning_;
  BenchMemory layout_;
  ompipe_matmul_sizes sizes_{};
  std::deque<BenchMemory> packed_, shared_scratch_, calls_;
  std::unique_ptr<BenchMemory> tile_scratch_;
  int64_t tile_scratch_bytes_ = 0;
};

}  // namespace ompipe::bench
