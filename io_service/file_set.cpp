#include "ompipe/io/file_set.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ompipe::io {
namespace {

Error location_error(ErrorKind kind, std::string_view location, std::string_view subject, std::string reason,
                     int errno_value = 0) {
  return Error{.kind = kind,
               .phase = "open",
               .subject = std::string(subject),
               .reason = std::move(reason),
               .file = std::string(location),
               .errno_value = errno_value};
}

// An O_PATH descriptor of a directory and where it really lies.
struct Directory {
  int descriptor = -1;
  std::string root;
};

Result<Directory> open_directory(const std::string& path) {
  Directory directory;
  directory.descriptor = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory.descriptor < 0) {
    return location_error(ErrorKind::environment, path, "", "the model's directory cannot be opened", errno);
  }
  auto root = real_path_of(directory.descriptor, path);
  if (!root) {
    close(directory.descriptor);
    return root.error();
  }
  directory.root = std::move(*root);
  return directory;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool lies_in(const std::string& path, const std::string& root) {
  if (root == "/") return true;
  return path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/';
}

}  // namespace

Result<std::string> normalise_location(std::string_view location, std::string_view subject) {
  const auto refuse = [&](const char* reason) {
    return location_error(ErrorKind::bad_model, location, subject, reason);
  };
  if (location.empty()) return refuse("the external location is empty");
  if (location.find('\0') != std::string_view::npos) return refuse("the external location contains a NUL byte");
  if (location.front() == '/')
    return refuse("the external location is absolute, expected one in the model's directory");
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= location.size();) {
    const size_t end = std::min(location.find('/', begin), location.size());
    const std::string_view part = location.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (parts.empty()) {
      return refuse("the external location leaves the model's directory");
    } else {
      parts.pop_back();
    }
  }
  if (parts.empty()) return refuse("the external location names the model's directory itself");
  std::string normal;
  for (const std::string_view part : parts) normal.append(normal.empty() ? "" : "/").append(part);
  return normal;
}

Result<FileSet> FileSet::open(const std::string& model_path) {
  auto model = FileHandle::open(model_path);
  if (!model) return model.error();
  FileSet files;
  files.model_ = std::move(*model);
  files.named_directory_ = parent_of(model_path);
  auto named = open_directory(files.named_directory_);
  if (!named) return named.error();
  files.named_descriptor_ = named->descriptor;
  files.named_root_ = std::move(named->root);
  auto real = open_directory(parent_of(files.model_->real_path()));
  if (!real) return real.error();
  files.real_descriptor_ = real->descriptor;
  files.real_root_ = std::move(real->root);
  const FileIdentity& identity = files.model_->identity();
  files.by_inode_.emplace(std::pair(identity.device, identity.inode), files.model_);
  return files;
}

FileSet::~FileSet() {
  if (named_descriptor_ >= 0) close(named_descriptor_);
  if (real_descriptor_ >= 0) close(real_descriptor_);
}

FileSet::FileSet(FileSet&& other) noexcept
    : model_(std::move(other.model_)),
      named_directory_(std::move(other.named_directory_)),
      named_descriptor_(std::exchange(other.named_descriptor_, -1)),
      real_descriptor_(std::exchange(other.real_descriptor_, -1)),
      named_root_(std::move(other.named_root_)),
      real_root_(std::move(other.real_root_)),
      by_location_(std::move(other.by_location_)),
      by_inode_(std::move(other.by_inode_)) {}

FileSet& FileSet::operator=(FileSet&& other) noexcept {
  std::swap(model_, other.model_);
  std::swap(named_directory_, other.named_directory_);
  std::swap(named_descriptor_, other.named_descriptor_);
  std::swap(real_descriptor_, other.real_descriptor_);
  std::swap(named_root_, other.named_root_);
  std::swap(real_root_, other.real_root_);
  std::swap(by_location_, other.by_location_);
  std::swap(by_inode_, other.by_inode_);
  return *this;
}

bool FileSet::is_confined(const std::string& real) const {
  return lies_in(real, named_root_) || lies_in(real, real_root_);
}

Result<std::shared_ptr<const FileHandle>> FileSet::open_external(std::string_view location, std::string_view subject) {
  if (const auto known = by_location_.find(location); known != by_location_.end()) return known->second;
  const auto normal = normalise_location(location, subject);
  if (!normal) return normal.error();
  auto file = open_confined(*normal, std::string(subject));
  if (!file) return file.error();
  const FileIdentity& identity = (*file)->identity();
  const auto shared = by_inode_.emplace(std::pair(identity.device, identity.inode), *file).first->second;
  by_location_.emplace(location, shared);
  return shared;
}

Result<std::shared_ptr<const FileHandle>> FileSet::open_confined(const std::string& normal,
                                                                 const std::string& subject) {
  const std::string shown = named_directory_ == "/" ? "/" + normal : named_directory_ + "/" + normal;
  int descriptor = openat(named_descriptor_, normal.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) descriptor = openat(real_descriptor_, normal.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0) return location_error(ErrorKind::environment, shown, subject, "cannot be opened", errno);
  auto real = real_path_of(descriptor, shown);
  auto file = [&]() -> Result<std::shared_ptr<const FileHandle>> {
    if (!real) return real.error();
    if (!is_confined(*real)) {
      return location_error(ErrorKind::bad_model, shown, subject,
                            "the file really lies at " + *real + ", outside the model's directories");
    }
    return FileHandle::reopen(descriptor, shown);
  }();
  close(descriptor);
  if (file) return file;
  Error error = file.error();
  error.subject = subject;
  return error;
}

}  // namespace ompipe::io
