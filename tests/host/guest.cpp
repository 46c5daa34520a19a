#include "guest.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ompipe/session/session.h"

using namespace ompipe;

namespace {

exec::NamedTensor integers(const std::string& name, std::vector<int64_t> values) {
  const auto bytes = std::make_shared<std::vector<int64_t>>(std::move(values));
  const int64_t dims[] = {1, int64_t(bytes->size())};
  return {name, {exec::make_tensor(model::DType::i64, dims, reinterpret_cast<std::byte*>(bytes->data())), bytes}};
}

void add_caches(const model::ResolvedModel& model, int64_t capacity, exec::RuntimeContext& context) {
  const model::DecoderSignature& decoder = *model.decoder();
  auto add = [&](int32_t past, int32_t present) {
    const auto memory = std::make_shared<std::vector<float>>(size_t(decoder.kv_heads * capacity * decoder.head_size));
    exec::KvBinding cache;
    cache.past = model.inputs()[size_t(past)].name;
    cache.present = model.outputs()[size_t(present)].name;
    cache.memory = {reinterpret_cast<std::byte*>(memory->data()), memory->size() * sizeof(float), memory};
    cache.heads = decoder.kv_heads;
    cache.capacity = capacity;
    cache.head_size = decoder.head_size;
    context.caches.push_back(std::move(cache));
  };
  for (const model::DecoderSignature::Cache& layer : decoder.caches) {
    add(layer.past_key, layer.present_key);
    add(layer.past_value, layer.present_value);
  }
}

// The prompt's logits, and which library served the scheduler.
Result<std::vector<float>> logits_of(const char* scheduler, int threads, const char* path, std::string& library) {
  session::RuntimeOptions options;
  options.scheduler = scheduler;
  options.threads = threads;
  const auto runtime = session::Runtime::open(options);
  if (!runtime) return runtime.error();
  library = (*runtime)->figures().openmp_runtime;
  const auto session = session::RuntimeSession::open(*runtime, path, session::SessionOptions{});
  if (!session) return session.error();
  exec::RuntimeContext context;
  context.inputs = {integers("input_ids", {1, 2, 3}), integers("attention_mask", {1, 1, 1})};
  context.wanted = {"logits"};
  add_caches(*(*session)->plan().model, 8, context);
  if (Status status = (*session)->Run(context); !status) return status.error();
  const exec::Tensor& logits = context.output("logits")->view;
  return std::vector<float>(logits.read<float>(), logits.read<float>() + logits.elements());
}

}  // namespace

int ompipe_guest(const char* model, int threads, char* library, size_t library_bytes) {
  std::string served, unused;
  const Result<std::vector<float>> tasks = logits_of("omp-tasks", threads, model, served);
  const Result<std::vector<float>> sequence = logits_of("sequential", threads, model, unused);
  for (const auto* result : {&tasks, &sequence}) {
    if (result->ok()) continue;
    std::fprintf(stderr, "guest: %s\n", result->error().message().c_str());
    return 1;
  }
  if (*tasks != *sequence) {
    std::fprintf(stderr, "guest: the schedulers' logits differ\n");
    return 1;
  }
  std::snprintf(library, library_bytes, "%s", served.c_str());
  return 0;
}
