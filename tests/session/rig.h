// Generated models, a runtime with sessions over them, greedy decoding through the public interface, and a ledger that
// has to be clean at the end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ompipe/session/observer.h"
#include "ompipe/session/runtime.h"
#include "ompipe/session/session.h"

namespace ompipe::session::testing {

// Whether the long forms of the tests are asked for (OMPIPE_LONG is set).
bool long_tests();

// Everything takes several times as long in a sanitizer's build.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// A folder below the build tree that is removed with everything in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string path(const std::string& name) const { return root_ + "/" + name; }

 private:
  std::string root_;
};

// model.onnx of a preset, seed 1; generated once a process and removed at its end.
std::string model_path(const std::string& preset = "tiny-int4", int accuracy_level = 0);

// A copy of tiny-int4's files that a test may damage.
class ModelCopy {
 public:
  ModelCopy();
  std::string file(const std::string& name) const { return folder_.path("model/" + name); }
  std::string model() const { return file("model.onnx"); }
  std::string data() const { return file("model.data"); }
  void flip(uint64_t offset) const;  // one bit of model.data

 private:
  TestFolder folder_;
};

using Tokens = std::vector<int64_t>;
using Floats = std::vector<float>;

// An input whose elements it owns.
template <class T>
exec::NamedTensor feed(const std::string& name, model::DType dtype, std::vector<int64_t> dims,
                       std::vector<T> elements) {
  auto owner = std::make_shared<std::vector<T>>(std::move(elements));
  return {name, {exec::make_tensor(dtype, dims, reinterpret_cast<std::byte*>(owner->data())), owner}};
}

// The elements of a dense float32 tensor; of each output of a run.
Floats elements_of(const exec::Tensor& tensor);
std::vector<Floats> all_outputs(const exec::RuntimeContext& context);

inline const Tokens kPrompt{1, 17, 300, 4242, 8000, 77, 5, 2048};  // the goldens'

// One sequence: its caches, and a context that is used step after step.
class Decoder {
 public:
  explicit Decoder(const RuntimeSession& session, int64_t capacity = 64);

  // Inputs for these ids behind what the caches hold.
  void feed(const Tokens& ids);
  // The logits of the last position. The output's memory is let go.
  Floats take_logits();
  int64_t length() const { return context.caches.front().length; }
  void pretend_length(int64_t length);  // of the caches, for what a later step would need

  exec::RuntimeContext context;

 private:
  const model::ResolvedModel& model_;
};

struct Decoded {
  Tokens tokens;
  std::vector<Floats> logits;  // of each step's last position
  bool operator==(const Decoded&) const = default;
};

// Greedy: the prompt, then each token that it gave. The first failed step's error.
Result<Decoded> decode(RuntimeSession& session, int steps, const Tokens& prompt = kPrompt);
int64_t best_of(const Floats& logits);

// A runtime and its sessions. A failure to open fails the test.
class Rig {
 public:
  explicit Rig(const RuntimeOptions& options);
  // Closes the sessions; whatever the runtime's ledger then holds fails the test.
  ~Rig();

  RuntimeSession& open(const SessionOptions& options = {}, const std::string& path = model_path());
  Status try_open(const SessionOptions& options = {}, const std::string& path = model_path());  // may be refused
  RuntimeSession& session(size_t index = 0) { return *sessions_[index]; }
  void close() { sessions_.clear(); }
  void close(size_t index) { sessions_.erase(sessions_.begin() + ptrdiff_t(index)); }
  size_t sessions() const { return sessions_.size(); }
  Runtime& runtime() { return *runtime_; }
  std::shared_ptr<Runtime> share() { return runtime_; }

 private:
  std::shared_ptr<Runtime> runtime_;
  std::vector<std::unique_ptr<RuntimeSession>> sessions_;
};

// A task that an observer was told of.
struct Seen {
  TaskKind kind;
  Priority original, effective;
  int32_t object, chunk, segment, invocation, lane;
  uint32_t generation;
  uint64_t bytes, queued_ns, start_ns, end_ns;
  std::string name;
};

// Keeps every task, in the order in which it was told, and lets a test wait for one.
class Watcher : public Observer {
 public:
  void on_task(const TaskEvent& event) noexcept override;
  void on_milestone(Milestone, uint64_t) noexcept override {}

  using Match = std::function<bool(const Seen&)>;
  void wait_for(const Match& match);
  std::vector<Seen> seen();
  // Called in on_task, before the task is kept; may block.
  std::function<void(const TaskEvent&)> gate;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seen> seen_;
};

}  // namespace ompipe::session::testing
