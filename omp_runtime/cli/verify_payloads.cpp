#include "verify_payloads.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>

#include "ompipe/arenas/mutex.h"
#include "ompipe/io/digest.h"
#include "ompipe/io/file_checksum.h"
#include "ompipe/io/io_service.h"

namespace ompipe::cli {

namespace {

constexpr size_t kReadsInFlight = 4;

// Holds each completion until its turn to be hashed comes.
class Completions final : public io::CompletionSink {
 public:
  void complete(io::Completion completion) noexcept override {
    MutexLock lock(mutex_);
    const size_t slot = completion.id % kReadsInFlight;
    slots_[slot] = std::move(completion);
    arrived_[slot] = true;
    changed_.notify_one();
  }
  io::Completion wait(io::RequestId id) {
    const size_t slot = id % kReadsInFlight;
    MutexLock lock(mutex_);
    while (!arrived_[slot]) changed_.wait(mutex_);
    arrived_[slot] = false;
    return std::move(slots_[slot]);
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::array<io::Completion, kReadsInFlight> slots_ OMPIPE_GUARDED_BY(mutex_);
  std::array<bool, kReadsInFlight> arrived_ OMPIPE_GUARDED_BY(mutex_) = {};
};

// Reads ahead of the hash, slice by slice, in order.
class SliceReader {
 public:
  explicit SliceReader(io::Device& device) : service_(device, completions_, {}) {
    for (auto& buffer : buffers_) buffer.resize(io::kSliceBytes);
  }
  const Status& status() const { return service_.status(); }

  Result<io::Hash128> digest(const std::shared_ptr<const io::FileHandle>& file, uint64_t offset, uint64_t length) {
    const uint64_t slices = io::slice_count(length);
    uint64_t submitted = 0;
    const auto submit = [&] {
      const uint64_t at = submitted++ * io::kSliceBytes;
      const io::RequestId id = next_id_++;
      io::ReadRequest request;
      request.id = id;
      request.file = file;
      request.offset = offset + at;
      request.length = std::min(io::kSliceBytes, length - at);
      request.destination = std::span(buffers_[id % kReadsInFlight]).first(request.length);
      OMPIPE_CHECK(service_.submit(std::move(request)) == io::SubmitResult::accepted);
    };
    std::vector<io::Hash128> hashes;
    std::shared_ptr<const Error> failed;
    io::RequestId id = next_id_;
    while (submitted < slices && submitted < kReadsInFlight) submit();
    for (uint64_t slice = 0; slice < submitted; ++slice, ++id) {
      const io::Completion completion = completions_.wait(id);
      if (completion.status != io::ReadStatus::done) {
        if (!failed) failed = completion.error;
        continue;  // the others in flight are waited for
      }
      hashes.push_back(io::slice_hash(std::span(buffers_[id % kReadsInFlight]).first(completion.bytes)));
      if (!failed && submitted < slices) submit();
    }
    if (failed) return *failed;
    return io::fold(hashes);
  }

 private:
  Completions completions_;
  std::array<std::vector<std::byte>, kReadsInFlight> buffers_;
  io::RequestId next_id_ = 0;
  io::IoService service_;  // last: its threads write into the rest
};

Result<Checked> check_payload(const model::ModelGraph& graph, const model::Payload& payload, SliceReader& reader) {
  const model::SourceFile& file = graph.files[size_t(payload.file)];
  Checked checked = {payload.name, file.path, payload.offset, payload.length, payload.digest, {}, Verdict::unknown};
  if (payload.digest.empty()) return checked;
  const Result<io::Hash128> digest = reader.digest(file.handle, payload.offset, payload.length);
  if (!digest) {
    Error error = digest.error();
    error.subject = payload.name;
    return error;
  }
  checked.found = io::format_digest(*digest);
  checked.verdict = checked.found == checked.expected ? Verdict::right : Verdict::wrong;
  return checked;
}

}  // namespace

Result<std::vector<Checked>> verify_payloads(const model::ModelGraph& graph, io::Device& device) {
  SliceReader reader(device);
  if (!reader.status()) return reader.status().error();
  std::vector<Checked> results;
  for (const model::Payload& payload : graph.payloads) {
    Result<Checked> checked = check_payload(graph, payload, reader);
    if (!checked) return checked.error();
    results.push_back(*std::move(checked));
  }
  for (const model::SourceFile& file : graph.files) {
    if (file.sha1.empty()) continue;
    const Result<std::string> found = io::sha1_of(*file.handle);
    if (!found) return found.error();
    results.push_back({file.path, file.path, 0, file.bytes, file.sha1, *found,
                       *found == file.sha1 ? Verdict::right : Verdict::wrong});
  }
  return results;
}

}  // namespace ompipe::cli
