// What the tests of the I/O layer share: a temporary directory, recognisable bytes, a sink that collects.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ompipe/arenas/mutex.h"
#include "ompipe/io/io_service.h"

namespace ompipe::io::testing {

// A fresh directory, removed with its contents. Its name has a blank and non-ASCII letters.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string path(const std::string& name) const { return (root_ / name).string(); }
  const std::filesystem::path& root() const { return root_; }
  std::vector<std::string> names() const;  // sorted

 private:
  std::filesystem::path root_;
};

// Byte i is (131 i + 17 (i >> 8) + 7 (i >> 16) + 3) mod 256: differs between neighbouring bytes, pages and slices.
std::vector<std::byte> pattern(size_t bytes);

void write_file(const std::string& path, std::span<const std::byte> bytes);
std::string read_text(const std::string& path);
std::span<const std::byte> bytes_of(const std::string& text);

// Descriptors that this process has open: the ledger of files.
size_t open_descriptors();

// Keeps completions, and lets a test wait for them.
class CollectingSink final : public CompletionSink {
 public:
  void complete(Completion completion) noexcept override;
  void wait_for(size_t count);
  std::vector<Completion> all();  // in order of arrival
  std::vector<RequestId> ids();
  Completion of(RequestId id);  // the only one with this id; checks that there is exactly one

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Completion> completions_ OMPIPE_GUARDED_BY(mutex_);
};

}  // namespace ompipe::io::testing
