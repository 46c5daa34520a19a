#include "ompipe/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "ompipe/io/payload.h"

namespace ompipe::io {
namespace {

int result_of(int result) { return result >= 0 ? result : -errno; }

// Where the last component of `path` begins.
size_t name_begin(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

std::string directory_of(const std::string& path) {
  const size_t begin = name_begin(path);
  return begin == 0 ? "." : path.substr(0, begin);
}

// Unique among the processes of this machine and the files of this one; O_EXCL settles what is left.
std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> next{0};
  return path.substr(0, name_begin(path)) + "." + path.substr(name_begin(path)) + "." + std::to_string(getpid()) + "." +
         std::to_string(next.fetch_add(1)) + ".tmp";
}

}  // namespace

int FileOperations::create(const std::string& path) {
  return result_of(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

ssize_t FileOperations::write(int descriptor, std::span<const std::byte> bytes) {
  const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
  return written >= 0 ? written : -errno;
}

int FileOperations::sync(int descriptor) { return result_of(fsync(descriptor)); }

int FileOperations::rename(const std::string& from, const std::string& to) {
  return result_of(::rename(from.c_str(), to.c_str()));
}

int FileOperations::sync_directory(const std::string& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  const int result = result_of(fsync(descriptor));
  close(descriptor);
  return result;
}

int FileOperations::unlink(const std::string& path) { return result_of(::unlink(path.c_str())); }

AtomicFile::AtomicFile(std::string path, std::string temporary, int descriptor, FileOperations& operations)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor), operations_(&operations) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      broken_(other.broken_),
      operations_(other.operations_) {}

AtomicFile::~AtomicFile() { drop(); }

void AtomicFile::drop() {
  if (descriptor_ < 0) return;
  close(std::exchange(descriptor_, -1));
  operations_->unlink(temporary_);
}

Error AtomicFile::failure(const char* what, int errno_value) const {
  return Error{.phase = "write", .subject = "", .reason = what, .file = path_, .errno_value = errno_value};
}

Result<AtomicFile> AtomicFile::create(const std::string& path, FileOperations& operations) {
  std::string temporary = temporary_name(path);
  const int descriptor = operations.create(temporary);
  AtomicFile file(path, std::move(temporary), descriptor, operations);
  if (descriptor < 0) return file.failure("a temporary file cannot be created beside it", -descriptor);
  return file;
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  OMPIPE_CHECK(descriptor_ >= 0, "the file is published or dropped");
  while (!bytes.empty() && !broken_) {
    const ssize_t written = operations_->write(descriptor_, bytes);
    if (written == -EINTR) continue;
    if (written <= 0) {
      broken_ = true;
      return failure("cannot be written", written == 0 ? EIO : static_cast<int>(-written));
    }
    size_bytes_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (broken_) return failure("an earlier write failed", 0);
  return ok_status();
}

Result<FileIdentity> AtomicFile::publish(const Validate& validate) {
  OMPIPE_CHECK(descriptor_ >= 0, "the file is published or dropped");
  if (broken_) return failure("an earlier write failed", 0);
  if (const int error = operations_->sync(descriptor_); error < 0) return failure("cannot be flushed", -error);
  {
    const auto written = FileHandle::open(temporary_);
    if (!written) return written.error();
    if ((*written)->size_bytes() != size_bytes_) return failure("has another size than was written", 0);
    const Status valid = validate(*written);
    if (!valid) return valid.error();
  }
  if (const int error = operations_->rename(temporary_, path_); error < 0)
    return failure("cannot be renamed into place", -error);
  // From here on the temporary's name is gone: nothing is to be unlinked.
  const int descriptor = std::exchange(descriptor_, -1);
  const auto identity = identity_of(descriptor, path_);
  close(descriptor);
  if (!identity) return identity.error();
  if (const int error = operations_->sync_directory(directory_of(path_)); error < 0) {
    return failure("is in place, but its directory cannot be flushed", -error);
  }
  return identity;
}

Result<FileIdentity> publish_bytes(const std::string& path, std::span<const std::byte> bytes,
                                   FileOperations& operations) {
  auto file = AtomicFile::create(path, operations);
  if (!file) return file.error();
  const Status written = file->write(bytes);
  if (!written) return written.error();
  return file->publish([&](const std::shared_ptr<const FileHandle>& handle) -> Status {
    const auto mapped = map_range(handle, 0, handle->size_bytes());
    if (!mapped) return mapped.error();
    if (std::equal(bytes.begin(), bytes.end(), mapped->bytes.begin(), mapped->bytes.end())) return ok_status();
    return Error{.phase = "write", .subject = "", .reason = "reads back differently than it was written", .file = path};
  });
}

}  // namespace ompipe::io
