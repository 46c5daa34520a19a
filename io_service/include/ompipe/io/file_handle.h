// One opened, checked, immutable file: everything that reads it goes through its descriptor, never through its path
// again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "ompipe/arenas/error.h"

namespace ompipe::io {

// Which file, and which contents as far as the file system can tell. Times in nanoseconds since the epoch. A hint that
// the bytes are unchanged, never their identity: that is the digest.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

// A regular file open for reading. Shared by everything that may still read it; the last owner closes it. All functions
// may be called from any thread.
class FileHandle {
 public:
  // Opens `path` without side effects (O_PATH), checks what was opened, and reopens that very file for reading. Errors,
  // all of kind environment: missing, unreadable, directory, fifo, socket or device in its place.
  static Result<std::shared_ptr<const FileHandle>> open(const std::string& path);

  // Continues from a descriptor opened with O_PATH, which stays the caller's. `path` is what messages call the file.
  static Result<std::shared_ptr<const FileHandle>> reopen(int path_descriptor, const std::string& path);

  // A file without a descriptor whose bytes only a MemoryDevice knows.
  static std::shared_ptr<const FileHandle> in_memory(const std::string& name, uint64_t size_bytes);

  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  const std::string& path() const { return path_; }       // as it was named
  const std::string& real_path() const { return real_; }  // where the kernel says it lies; empty in memory
  const FileIdentity& identity() const { return identity_; }
  uint64_t size_bytes() const { return identity_.size_bytes; }
  int descriptor() const { return descriptor_; }  // -1 in memory; open as long as this handle lives

  // A second descriptor of the same file with O_DIRECT, opened at the first call; or -errno where the file system
  // refuses.
  int direct_descriptor() const;

  // Whether [offset, offset + length) lies in the file as it was opened; else bad_model, with the range and the file's
  // size.
  Status check_range(uint64_t offset, uint64_t length) const;

  // Whether the file still has the identity it was opened with; else environment, with what differs. One fstat, about
  // 0.3 us.
  Status check_unchanged() const;

 private:
  FileHandle(std::string path, std::string real, int descriptor, const FileIdentity& identity);

  const std::string path_;
  const std::string real_;
  const int descriptor_;
  const FileIdentity identity_;
  mutable std::once_flag direct_once_;
  mutable int direct_descriptor_ = -1;  // written once, under direct_once_
};

// The identity of an open descriptor, or environment with errno.
Result<FileIdentity> identity_of(int descriptor, const std::string& path);

// Where the kernel says that an open descriptor's file lies. Errors: environment (no /proc; the file was removed
// meanwhile).
Result<std::string> real_path_of(int descriptor, const std::string& path);

}  // namespace ompipe::io
