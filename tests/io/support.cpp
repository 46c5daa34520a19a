#include "support.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ompipe::io::testing {

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "ompipe io été XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  root_ = name;
}

TemporaryDirectory::~TemporaryDirectory() { std::filesystem::remove_all(root_); }

std::vector<std::string> TemporaryDirectory::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::byte> pattern(size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(131 * i + 17 * (i >> 8) + 7 * (i >> 16) + 3);
  return result;
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  REQUIRE(file.good());
}

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

void CollectingSink::complete(Completion completion) noexcept {
  MutexLock lock(mutex_);
  completions_.push_back(std::move(completion));
  changed_.notify_all();
}

void CollectingSink::wait_for(size_t count) {
  MutexLock lock(mutex_);
  while (completions_.size() < count) changed_.wait(mutex_);
}

std::vector<Completion> CollectingSink::all() {
  MutexLock lock(mutex_);
  return completions_;
}

std::vector<RequestId> CollectingSink::ids() {
  std::vector<RequestId> ids;
  for (const Completion& completion : all()) ids.push_back(completion.id);
  return ids;
}

Completion CollectingSink::of(RequestId id) {
  const auto completions = all();
  const auto has_id = [id](const Completion& completion) { return completion.id == id; };
  REQUIRE(std::count_if(completions.begin(), completions.end(), has_id) == 1);
  return *std::find_if(completions.begin(), completions.end(), has_id);
}

}  // namespace ompipe::io::testing
