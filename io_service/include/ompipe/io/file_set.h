// The files of one model: the model itself and its external data, confined to the model's own directories.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/io/file_handle.h"

namespace ompipe::io {

// Model hubs keep a model and its weights as links into a folder of blobs, so two directories are allowed: the model's
// as it was named, and the one where the model's real file lies. Locations are looked up in the first, then, when
// nothing is there, in the second; the file found must really lie in one of them. Two names of one file give one
// handle, so shared bytes are read once. Not thread-safe: built while a model is opened; the handles it gives out are.
class FileSet {
 public:
  // Opens the model file. Errors as FileHandle::open.
  static Result<FileSet> open(const std::string& model_path);
  ~FileSet();
  FileSet(FileSet&&) noexcept;
  FileSet& operator=(FileSet&&) noexcept;

  const std::shared_ptr<const FileHandle>& model() const { return model_; }

  // Opens the file that an external_data location names, for the tensor `subject` (for messages only). Errors:
  // bad_model for an empty or absolute location, one with a NUL byte, one that leaves the directory, or a link that
  // leads out of both; environment as FileHandle::open.
  Result<std::shared_ptr<const FileHandle>> open_external(std::string_view location, std::string_view subject);

 private:
  FileSet() = default;
  Result<std::shared_ptr<const FileHandle>> open_confined(const std::string& normal, const std::string& subject);
  bool is_confined(const std::string& real) const;

  std::shared_ptr<const FileHandle> model_;
  std::string named_directory_;  // as the caller wrote it, for messages
  int named_descriptor_ = -1;    // O_PATH descriptors of the two directories, so that neither is looked up twice
  int real_descriptor_ = -1;
  std::string named_root_, real_root_;  // where they really lie
  std::map<std::string, std::shared_ptr<const FileHandle>, std::less<>> by_location_;
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const FileHandle>> by_inode_;  // (device, inode)
};

// `location` as a relative path without ".", "..", and doubled separators; bad_model as FileSet::open_external.
Result<std::string> normalise_location(std::string_view location, std::string_view subject);

}  // namespace ompipe::io
