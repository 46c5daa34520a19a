#include "rig.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>

#include "ompipe/cli/generate.h"
#include "ompipe/cli/tensor_file.h"

namespace ompipe::session::testing {

namespace fs = std::filesystem;
using model::DType;

bool long_tests() { return std::getenv("OMPIPE_LONG") != nullptr; }

TestFolder::TestFolder() {
  fs::create_directories(OMPIPE_TEST_FOLDER);
  std::string name = std::string(OMPIPE_TEST_FOLDER) + "/XXXXXX";
  REQUIRE(mkdtemp(name.data()) != nullptr);
  root_ = name;
}

TestFolder::~TestFolder() { fs::remove_all(root_); }

std::string model_path(const std::string& preset, int accuracy_level) {
  static std::mutex mutex;
  static std::map<std::string, TestFolder> made;
  std::lock_guard lock(mutex);
  const auto [entry, fresh] = made.try_emplace(preset + std::to_string(accuracy_level));
  if (fresh) {
    const Status status = cli::generate_model(
        {.preset = preset, .directory = entry->second.path("model"), .accuracy_level = accuracy_level});
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  }
  return entry->second.path("model/model.onnx");
}

ModelCopy::ModelCopy() {
  std::filesystem::copy(std::filesystem::path(model_path()).parent_path(), folder_.path("model"));
}

void ModelCopy::flip(uint64_t offset) const {
  std::fstream file(data(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(std::streamoff(offset));
  const char byte = char(file.get() ^ 0x10);
  file.seekp(std::streamoff(offset));
  file.put(byte);
  REQUIRE(file.good());
}

Decoder::Decoder(const RuntimeSession& session, int64_t capacity) : model_(*session.plan().model) {
  const model::DecoderSignature& signature = *model_.decoder();
  const auto bind = [&](int32_t past, int32_t present) {
    const auto memory =
        cli::make_owned_tensor(signature.cache_dtype, {1, signature.kv_heads, capacity, signature.head_size}, "cache");
    REQUIRE(memory.ok());
    context.caches.push_back({.past = model_.inputs()[size_t(past)].name,
                              .present = model_.outputs()[size_t(present)].name,
                              .memory = {memory->view.data, memory->view.bytes(), memory->owner},
                              .heads = signature.kv_heads,
                              .capacity = capacity,
                              .head_size = signature.head_size});
  };
  for (const model::DecoderSignature::Cache& cache : signature.caches) {
    bind(cache.past_key, cache.present_key);
    bind(cache.past_value, cache.present_value);
  }
}

void Decoder::pretend_length(int64_t length) {
  for (exec::KvBinding& cache : context.caches) cache.length = length;
}

void Decoder::feed(const Tokens& ids) {
  const auto input = [&](int32_t port, int64_t length, const std::function<int64_t(int64_t)>& element) {
    if (port == model::kNone) return;
    auto values = std::make_shared<Tokens>();
    for (int64_t i = 0; i < length; ++i) values->push_back(element(i));
    const int64_t shape[] = {1, length};
    auto* const bytes = reinterpret_cast<std::byte*>(values->data());
    context.inputs.push_back(
        {model_.inputs()[size_t(port)].name, {exec::make_tensor(DType::i64, shape, bytes), std::move(values)}});
  };
  const model::DecoderSignature& signature = *model_.decoder();
  const auto count = int64_t(ids.size());
  context.inputs.clear();
  input(signature.input_ids, count, [&](int64_t i) { return ids[size_t(i)]; });
  input(signature.attention_mask, length() + count, [](int64_t) { return 1; });
  input(signature.position_ids, count, [&](int64_t i) { return length() + i; });
}

Floats Decoder::take_logits() {
  const exec::HeldTensor* const logits = context.output(model_.outputs()[size_t(model_.decoder()->logits)].name);
  REQUIRE(logits != nullptr);
  REQUIRE(logits->view.dtype == DType::f32);
  const float* const all = logits->view.read<float>();
  const Floats last(all + logits->view.elements() - logits->view.dim(-1), all + logits->view.elements());
  context.outputs.clear();
  return last;
}

Floats elements_of(const exec::Tensor& tensor) {
  const float* const first = tensor.read<float>();
  return {first, first + tensor.elements()};
}

std::vector<Floats> all_outputs(const exec::RuntimeContext& context) {
  std::vector<Floats> outputs;
  for (const exec::NamedTensor& output : context.outputs) outputs.push_back(elements_of(output.tensor.view));
  return outputs;
}

int64_t best_of(const Floats& logits) { return std::max_element(logits.begin(), logits.end()) - logits.begin(); }

Result<Decoded> decode(RuntimeSession& session, int steps, const Tokens& prompt) {
  Decoder decoder(session, int64_t(prompt.size()) + steps);
  Decoded result;
  Tokens next = prompt;
  for (int step = 0; step < steps; ++step) {
    decoder.feed(next);
    if (const Status status = session.Run(decoder.context); !status.ok()) return status.error();
    result.logits.push_back(decoder.take_logits());
    result.tokens.push_back(best_of(result.logits.back()));
    next = {result.tokens.back()};
  }
  return result;
}

Rig::Rig(const RuntimeOptions& options) {
  Result<std::shared_ptr<Runtime>> runtime = Runtime::open(options);
  REQUIRE_MESSAGE(runtime.ok(), (runtime.ok() ? "" : runtime.error().message()));
  runtime_ = *std::move(runtime);
}

Rig::~Rig() {
  sessions_.clear();
  if (std::uncaught_exceptions() > 0) return;
  const Status status = runtime_->audit();
  CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  const RuntimeFigures figures = runtime_->figures();
  for (const auto& [domain, arena] : figures.arenas) {
    CAPTURE(domain);
    CHECK(arena.live == 0);
    CHECK(arena.peak <= arena.limit);
  }
  CHECK(figures.ran_on_coordinator == 0);
}

RuntimeSession& Rig::open(const SessionOptions& options, const std::string& path) {
  const Status status = try_open(options, path);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  return *sessions_.back();
}

Status Rig::try_open(const SessionOptions& options, const std::string& path) {
  Result<std::unique_ptr<RuntimeSession>> session = RuntimeSession::open(runtime_, path, options);
  if (!session.ok()) return session.error();
  sessions_.push_back(*std::move(session));
  return ok_status();
}

void Watcher::on_task(const TaskEvent& event) noexcept {
  if (gate) gate(event);
  std::lock_guard lock(mutex_);
  seen_.push_back({event.kind, event.original, event.effective, event.object, event.chunk, event.segment,
                   event.invocation, event.lane, event.generation, event.bytes, event.queued_ns, event.start_ns,
                   event.end_ns, std::string(event.name)});
  changed_.notify_all();
}

void Watcher::wait_for(const Match& match) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return std::any_of(seen_.begin(), seen_.end(), match); });
}

std::vector<Seen> Watcher::seen() {
  std::lock_guard lock(mutex_);
  return seen_;
}

}  // namespace ompipe::session::testing
