#include "ompipe/cli/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "ompipe/io/atomic_file.h"
#include "ompipe/io/posix_device.h"

namespace ompipe::cli {

namespace {

Error file_error(const char* phase, const std::string& path, const char* reason, int errno_value) {
  return {.kind = ErrorKind::environment,
          .phase = phase,
          .subject = {},
          .reason = reason,
          .file = path,
          .errno_value = errno_value};
}

Status write_through(const std::string& path, std::string_view text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error("write", path, "can't be opened", errno);
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int failure = errno;
      close(descriptor);
      return file_error("write", path, "write failed", failure);
    }
    text.remove_prefix(size_t(written));
  }
  if (close(descriptor) != 0) return file_error("write", path, "close failed", errno);
  return ok_status();
}

}  // namespace

Result<std::vector<std::byte>> read_small_file(const std::string& path) {
  Result<std::shared_ptr<const io::FileHandle>> file = io::FileHandle::open(path);
  if (!file) return file.error();
  io::PosixDevice device;
  std::vector<std::byte> bytes((*file)->size_bytes());
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = device.read(**file, have, std::span(bytes).subspan(have), io::ReadMode::buffered);
    if (got == -EINTR) continue;
    if (got < 0) return file_error("read", path, "read failed", int(-got));
    if (got == 0) return file_error("read", path, "became shorter while it was read", 0);
    have += size_t(got);
  }
  return bytes;
}

Status write_small_file(const std::string& path, std::string_view text) {
  struct stat found{};
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    if (S_ISDIR(found.st_mode)) return file_error("write", path, "is a directory", 0);
    return write_through(path, text);
  }
  io::FileOperations operations;
  const Result<io::FileIdentity> written = io::publish_bytes(path, std::as_bytes(std::span(text)), operations);
  if (!written) return written.error();
  return ok_status();
}

Status check_writable(const std::string& path) {
  struct stat found{};
  const bool exists = stat(path.c_str(), &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) return file_error("write", path, "is a directory", 0);
  if (exists && !S_ISREG(found.st_mode)) {
    return access(path.c_str(), W_OK) == 0 ? ok_status() : Status(file_error("write", path, "is not writable", errno));
  }
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (access(directory.c_str(), W_OK | X_OK) == 0) return ok_status();
  return file_error("write", path, "its directory takes no files", errno);
}

}  // namespace ompipe::cli
