#include "trusted_digests.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "ompipe/io/digest_list.h"
#include "ompipe/io/file_set.h"

namespace ompipe::model {
namespace {

int32_t file_named(const ModelGraph& graph, const io::DigestEntry& entry) {
  const auto normal = io::normalise_location(entry.file, entry.name);
  if (!normal) return kNone;
  for (size_t i = 1; i < graph.files.size(); ++i) {
    if (graph.files[i].location == *normal) return int32_t(i);
  }
  const std::string& model = graph.metadata.path;
  return *normal == model.substr(model.find_last_of('/') + 1) ? 0 : kNone;
}

}  // namespace

namespace {

// Calls use(payload, entry) for every entry whose range is a payload's; the others become notes.
template <class Use>
void for_entries(const std::vector<io::DigestEntry>& entries, const std::string& path, ModelGraph& graph, Use use) {
  std::map<std::tuple<int32_t, uint64_t, uint64_t>, Payload*> by_range;
  for (Payload& payload : graph.payloads) by_range[{payload.file, payload.offset, payload.length}] = &payload;
  for (const io::DigestEntry& entry : entries) {
    const auto place = by_range.find({file_named(graph, entry), entry.offset, entry.length});
    if (place == by_range.end()) {
      graph.notes.push_back(fmt::format("{}: no payload for the entry of {}", path, entry.name));
    } else {
      use(*place->second, entry);
    }
  }
}

void take_slices(Payload& payload, const io::DigestEntry& entry) {
  payload.slice_hashes.clear();
  for (const io::Hash128& slice : entry.slices) payload.slice_hashes.push_back(io::format_hash(slice));
}

}  // namespace

Status apply_trusted_digests(const std::string& path, ModelGraph& graph) {
  const auto file = io::FileHandle::open(path);
  if (!file) return file.error();
  const auto entries = io::read_digest_list(**file);
  if (!entries) return entries.error();
  for_entries(*entries, path, graph, [&](Payload& payload, const io::DigestEntry& entry) {
    const std::string digest = io::format_digest(entry.digest);
    if (!payload.digest.empty() && payload.digest != digest) {
      graph.notes.push_back(fmt::format("{}: the trusted digest of {} replaces the model's own", path, entry.name));
    }
    payload.digest = digest;
    take_slices(payload, entry);
  });
  return ok_status();
}

void adopt_slice_hashes(ModelGraph& graph) {
  const std::string& model = graph.metadata.path;
  const size_t dot = model.find_last_of("./");
  const std::string path = (dot == model.npos || model[dot] == '/' ? model : model.substr(0, dot)) + ".digests";
  const auto file = io::FileHandle::open(path);
  if (!file) return;
  const auto entries = io::read_digest_list(**file);
  if (!entries) {
    graph.notes.push_back(entries.error().message());
    return;
  }
  for_entries(*entries, path, graph, [](Payload& payload, const io::DigestEntry& entry) {
    if (payload.digest == io::format_digest(entry.digest)) take_slices(payload, entry);
  });
}

}  // namespace ompipe::model
