#include "ompipe/io/file_handle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ompipe::io {
namespace {

Error open_error(const std::string& path, std::string reason, int errno_value = 0) {
  return Error{.phase = "open", .subject = "", .reason = std::move(reason), .file = path, .errno_value = errno_value};
}

std::string proc_path(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a link";
  return "a device";
}

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileIdentity identity_of(const struct stat& info) {
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

std::string difference(const FileIdentity& was, const FileIdentity& is) {
  if (was.size_bytes != is.size_bytes) {
    return "had " + std::to_string(was.size_bytes) + " bytes and has " + std::to_string(is.size_bytes);
  }
  return was.mtime_ns != is.mtime_ns ? "its modification time changed" : "its status change time changed";
}

}  // namespace

Result<FileIdentity> identity_of(int descriptor, const std::string& path) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return open_error(path, "cannot be examined", errno);
  return identity_of(info);
}

Result<std::string> real_path_of(int descriptor, const std::string& path) {
  std::string real(256, '\0');
  for (;;) {
    const ssize_t length = readlink(proc_path(descriptor).c_str(), real.data(), real.size());
    if (length < 0) return open_error(path, "its real location cannot be read from /proc/self/fd", errno);
    if (static_cast<size_t>(length) < real.size()) {
      real.resize(length);
      break;
    }
    real.resize(2 * real.size());
  }
  struct stat info;
  if (fstat(descriptor, &info) != 0) return open_error(path, "cannot be examined", errno);
  if (info.st_nlink == 0) return open_error(path, "was removed while it was opened");
  return real;
}

Result<std::shared_ptr<const FileHandle>> FileHandle::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) return open_error(path, "the path contains a NUL byte");
  const int descriptor = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0) return open_error(path, "cannot be opened", errno);
  auto handle = reopen(descriptor, path);
  close(descriptor);
  return handle;
}

Result<std::shared_ptr<const FileHandle>> FileHandle::reopen(int path_descriptor, const std::string& path) {
  struct stat info;
  if (fstat(path_descriptor, &info) != 0) return open_error(path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) {
    return open_error(path, std::string("is ") + kind_of(info.st_mode) + ", expected a regular file");
  }
  auto real = real_path_of(path_descriptor, path);
  if (!real) return real.error();
  const int descriptor = ::open(proc_path(path_descriptor).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return open_error(path, "cannot be read", errno);
  const auto identity = identity_of(descriptor, path);
  if (!identity) {
    close(descriptor);
    return identity.error();
  }
  return std::shared_ptr<const FileHandle>(new FileHandle(path, std::move(*real), descriptor, *identity));
}

std::shared_ptr<const FileHandle> FileHandle::in_memory(const std::string& name, uint64_t size_bytes) {
  return std::shared_ptr<const FileHandle>(new FileHandle(name, "", -1, FileIdentity{.size_bytes = size_bytes}));
}

FileHandle::FileHandle(std::string path, std::string real, int descriptor, const FileIdentity& identity)
    : path_(std::move(path)), real_(std::move(real)), descriptor_(descriptor), identity_(identity) {}

FileHandle::~FileHandle() {
  if (descriptor_ >= 0) close(descriptor_);
  if (direct_descriptor_ >= 0) close(direct_descriptor_);
}

int FileHandle::direct_descriptor() const {
  std::call_once(direct_once_, [this] {
    const int descriptor = ::open(proc_path(descriptor_).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    direct_descriptor_ = descriptor >= 0 ? descriptor : -errno;
  });
  return direct_descriptor_;
}

Status FileHandle::check_range(uint64_t offset, uint64_t length) const {
  const uint64_t size = size_bytes();
  if (offset <= size && length <= size - offset) return ok_status();
  const bool overflows = offset + length < offset;
  return Error{.kind = ErrorKind::bad_model,
               .phase = "open",
               .subject = "",
               .reason = (overflows ? "the range overflows; the file has " : "the range leaves the file of ") +
                         std::to_string(size) + " bytes",
               .file = path_,
               .offset = offset,
               .length = length};
}

Status FileHandle::check_unchanged() const {
  if (descriptor_ < 0) return ok_status();
  const auto now = identity_of(descriptor_, path_);
  if (!now) return now.error();
  if (*now == identity_) return ok_status();
  return Error{.phase = "read",
               .subject = "",
               .reason = "the file changed while in use: " + difference(identity_, *now),
               .file = path_};
}

}  // namespace ompipe::io
