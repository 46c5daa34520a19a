// Memory for benchmarks: anonymous pages at 2 MiB, huge where the kernel gives them, touched or fresh.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ompipe::bench {

// Owns `size` bytes; not copied or moved. Aborts if there are none, which ends the benchmark.
class BenchMemory {
 public:
  enum class Pages { touched, fresh };

  explicit BenchMemory(size_t size, Pages pages = Pages::touched) : mapped_(size + kHugePage) {
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) {
      std::perror("benchmark memory");
      std::abort();
    }
    const auto address = (reinterpret_cast<uintptr_t>(base_) + kHugePage - 1) / kHugePage * kHugePage;
    data_ = reinterpret_cast<std::byte*>(address);
    madvise(data_, size, MADV_HUGEPAGE);
    if (pages == Pages::touched) std::memset(data_, 1, size);
  }
  ~BenchMemory() { munmap(base_, mapped_); }
  BenchMemory(const BenchMemory&) = delete;
  BenchMemory& operator=(const BenchMemory&) = delete;

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  size_t mapped_;
  void* base_;
  std::byte* data_;
};

}  // namespace ompipe::bench
