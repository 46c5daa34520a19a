// Publication of a file in one step: readers see the old contents or the new ones, whole, whatever fails and whenever.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ompipe/arenas/error.h"
#include "ompipe/io/file_handle.h"

namespace ompipe::io {

// The system calls that publication makes, so that a test can fail each. Results are those of the calls, -errno for
// failure.
class FileOperations {
 public:
  virtual ~FileOperations() = default;
  virtual int create(const std::string& path);  // O_WRONLY | O_CREAT | O_EXCL
  virtual ssize_t write(int descriptor, std::span<const std::byte> bytes);
  virtual int sync(int descriptor);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int sync_directory(const std::string& directory);
  virtual int unlink(const std::string& path);
};

// A file being written under a temporary name beside `path`, in the same directory: ".NAME.PID.N.tmp". Dropped unless
// it is published; only a process that dies leaves a temporary behind. One thread at a time.
class AtomicFile {
 public:
  // Checks the bytes that are about to appear under the final name.
  using Validate = std::function<Status(const std::shared_ptr<const FileHandle>& written)>;

  // Errors: environment with errno. `operations` outlives the file.
  static Result<AtomicFile> create(const std::string& path, FileOperations& operations);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  // Appends. After an error nothing can be published.
  Status write(std::span<const std::byte> bytes);
  uint64_t size_bytes() const { return size_bytes_; }

  // Flush, validate, rename, flush of the directory. Returns the identity after the rename. An error before the rename
  // leaves the old contents (or no file); an error of the directory's flush means that the new contents are there but
  // may not outlive a power cut.
  Result<FileIdentity> publish(const Validate& validate);

 private:
  AtomicFile(std::string path, std::string temporary, int descriptor, FileOperations& operations);
  Error failure(const char* what, int errno_value) const;
  void drop();

  std::string path_, temporary_;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  bool broken_ = false;
  FileOperations* operations_;
};

// Publishes `bytes` as one file; validation compares what was written with them.
Result<FileIdentity> publish_bytes(const std::string& path, std::span<const std::byte> bytes,
                                   FileOperations& operations);

}  // namespace ompipe::io
