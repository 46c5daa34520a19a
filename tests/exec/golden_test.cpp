// Generated models, every object prepared at once, run node by node: ONNX Runtime's tokens, logits and outputs.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "golden_files.h"
#include "graph.h"
#include "ompipe/cli/generate.h"
#include "ompipe/store/prepare_chunk.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Plan = ompipe::plan::PreparedExecutionPlan;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "ompipe_golden_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void read_all(const Plan& plan, const std::vector<ompipe::plan::Read>& reads, std::byte* to) {
  for (const ompipe::plan::Read& read : reads) {
    const int file = plan.model->files()[size_t(read.file)].handle->descriptor();
    for (uint64_t done = 0; done < read.length;) {
      const ssize_t got = pread(file, to + read.staging_offset + done, read.length - done, off_t(read.offset + done));
      REQUIRE(got > 0);
      done += uint64_t(got);
    }
  }
}

MemoryObjects prepare(const Plan& plan) {
  MemoryObjects table;
  for (const ompipe::plan::PreparedObject& object : plan.objects) {
    const auto prepared = MemoryObjects::allocate(object.bytes),
               aux = MemoryObjects::allocate(object.aux_staging_bytes);
    const auto staging = MemoryObjects::allocate(object.chunk_staging_bytes);
    read_all(plan, object.aux_reads, aux.get());
    for (size_t i = 0; i < object.chunks.size(); ++i) {
      const bool straight = object.chunk_staging_bytes == 0;
      read_all(plan, object.chunks[i].reads, straight ? prepared.get() + object.chunks[i].begin : staging.get());
      const ompipe::store::ChunkJob job{&plan,     &object,        i,      straight ? nullptr : staging.get(),
                                        aux.get(), prepared.get(), nullptr};
      REQUIRE(ompipe::store::prepare_chunk(job).ok());
    }
    table.objects.push_back(prepared);
  }
  return table;
}

std::shared_ptr<const Plan> open_plan(const std::string& folder) {
  auto model = ompipe::model::open_model(folder + "/model.onnx", {});
  REQUIRE_MESSAGE(model.ok(), (model ? "" : model.error().message()));
  ompipe::plan::PlanOptions options;
  options.isa = ompipe::kernels::best_isa();
  auto plan = ompipe::plan::build_plan(*model, options);
  REQUIRE_MESSAGE(plan.ok(), (plan ? "" : plan.error().message()));
  return *plan;
}

// A generated model, ready to run.
struct Generated {
  Generated(const std::string& preset, int accuracy_level) {
    ompipe::cli::GenerateOptions options;
    options.preset = preset;
    options.directory = folder.path();
    options.accuracy_level = accuracy_level;
    const ompipe::Status status = ompipe::cli::generate_model(options);
    REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message()));
    plan = open_plan(folder.path());
    objects = prepare(*plan);
  }
  TemporaryFolder folder;
  std::shared_ptr<const Plan> plan;
  MemoryObjects objects;
};

// Greedy decoding with bound caches; each step is fed the golden's token.
class Decoder {
 public:
  explicit Decoder(const Generated& model) : model_(model), frame_(model.plan, 1) {
    const auto& decoder = *model.plan->model->decoder();
    const auto& inputs = model.plan->model->inputs();
    const auto& outputs = model.plan->model->outputs();
    const auto bind = [&](int32_t past, int32_t present) {
      const uint64_t bytes = uint64_t(decoder.kv_heads * kCapacity * decoder.head_size) * 4;
      const auto memory = MemoryObjects::allocate(bytes);
      context_.caches.push_back({inputs[size_t(past)].name,
                                 outputs[size_t(present)].name,
                                 {memory.get(), bytes, memory},
                                 1,
                                 decoder.kv_heads,
                                 kCapacity,
                                 decoder.head_size,
                                 0});
    };
    for (const auto& cache : decoder.caches) {
      bind(cache.past_key, cache.present_key);
      bind(cache.past_value, cache.present_value);
    }
  }

  // The logits of the last position.
  std::vector<float> step(const std::vector<int64_t>& ids) {
    const int64_t count = int64_t(ids.size());
    length_ += count;
    context_.inputs = {feed<int64_t>("input_ids", {1, count}, ids),
                       feed<int64_t>("attention_mask", {1, length_}, std::vector<int64_t>(size_t(length_), 1))};
    const ompipe::Status bound = frame_.bind(context_);
    REQUIRE_MESSAGE(bound.ok(), (bound ? "" : bound.error().message()));
    const ompipe::Status status = run_bound(frame_, *model_.plan, context_, model_.objects, runner_);
    REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message()));
    const std::vector<float> logits = elements_of<float>(*context_.output("logits"));
    return {logits.end() - context_.output("logits")->view.dim(2), logits.end()};
  }

 private:
  static constexpr int64_t kCapacity = 64;
  const Generated& model_;
  Frame frame_;
  RuntimeContext context_;
  SerialTileRunner runner_;
  int64_t length_ = 0;
};

// Level 0 computes in float32, so only the order of sums differs; level 4 may round an element of A to the next
// integer.
double tolerance_of(int level) { return level == 0 ? 1e-4 : 1e-2; }

void check_decoder(const std::string& preset, int level) {
  const std::string name = preset + "-acc" + std::to_string(level);
  const Json expected = golden(name);
  const Generated model(preset, level);
  Decoder decoder(model);
  std::vector<int64_t> ids = expected["prompt"];
  for (size_t i = 0; i < expected["tokens"].size(); ++i) {
    const std::vector<float> logits = decoder.step(ids);
    const Json& step = expected["steps"][i];
    const double norm = step["norm"], tolerance = tolerance_of(level) * norm;
    CAPTURE(i);
    CHECK(norm_of(logits) == doctest::Approx(norm).epsilon(tolerance_of(level)));
    for (size_t rank = 0; rank < step["ids"].size(); ++rank) {
      CHECK(std::abs(double(logits[step["ids"][rank]]) - double(step["values"][rank])) <= tolerance);
    }
    const double gap = double(step["values"][0]) - double(step["values"][1]);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (level == 0 || gap > tolerance) CHECK(best == expected["tokens"][i].get<int64_t>());
    ids = {expected["tokens"][i].get<int64_t>()};
  }
}

// The elements that a rule of the goldens' README stands for, "linear:A:B:M:DIMS" or "random:SEED:DIMS".
NamedTensor input_by_rule(const std::string& name, const std::string& rule) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= rule.size();) {
    const size_t end = std::min(rule.find(':', begin), rule.size());
    parts.push_back(rule.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<int64_t> dims;
  for (size_t begin = 0; begin <= parts.back().size();) {
    const size_t end = std::min(parts.back().find('x', begin), parts.back().size());
    dims.push_back(std::stoll(parts.back().substr(begin, end - begin)));
    begin = end + 1;
  }
  const int64_t count = ompipe::model::element_count(dims);
  if (parts[0] == "linear") {
    const int64_t a = std::stoll(parts[1]), b = std::stoll(parts[2]), m = std::stoll(parts[3]);
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i) values.push_back((i * a + b) % m);
    return feed<int64_t>(name, dims, values);
  }
  REQUIRE(parts[0] == "random");
  Generator generator(uint32_t(std::stoul(parts[1])));
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(float(generator.uniform()));
  return feed<float>(name, dims, values);
}

void check_outputs(const std::string& preset) {
  const Json expected = golden(preset);
  const Generated model(preset, 0);
  RuntimeContext context;
  for (const auto& [name, rule] : expected["inputs"].items()) context.inputs.push_back(input_by_rule(name, rule));
  Frame frame(model.plan, 1);
  const ompipe::Status bound = frame.bind(context);
  REQUIRE_MESSAGE(bound.ok(), (bound ? "" : bound.error().message()));
  SerialTileRunner runner;
  REQUIRE(run_bound(frame, *model.plan, context, model.objects, runner).ok());
  for (const auto& [name, output] : expected["outputs"].items()) {
    REQUIRE(context.output(name) != nullptr);
    const HeldTensor& got = *context.output(name);
    const std::vector<float> values = elements_of<float>(got);
    CHECK(std::vector<int64_t>(got.view.shape().begin(), got.view.shape().end()) ==
          output["dims"].get<std::vector<int64_t>>());
    const double norm = output["norm"];
    CHECK(norm_of(values) == doctest::Approx(norm).epsilon(1e-4));
    const double rms = norm / std::sqrt(double(values.size()));
    for (size_t i = 0; i < output["first"].size(); ++i)
      CHECK(std::abs(double(values[i]) - double(output["first"][i])) < 1e-4 * rms * 10);
  }
}

}  // namespace

TEST_SUITE_BEGIN("golden");

TEST_CASE("tiny-int4: tokens and logits of ONNX Runtime, both accuracy levels") {
  check_decoder("tiny-int4", 0);
  check_decoder("tiny-int4", 4);
}

TEST_CASE("tiny-int4: every logit of the prompt's last position") {
  for (const int level : {0, 4}) {
    const std::string name = "tiny-int4-acc" + std::to_string(level);
    const std::vector<float> expected = read_npy(name + ".logits0.npy");
    const Generated model("tiny-int4", level);
    const std::vector<float> logits = Decoder(model).step(golden(name)["prompt"]);
    REQUIRE(logits.size() == expected.size());
    const double norm = norm_of(expected);
    for (size_t i = 0; i < expected.size(); ++i) {
      REQUIRE(std::abs(double(logits[i]) - double(expected[i])) <= tolerance_of(level) * norm);
    }
    // At level 4 roundings that fall the other way spread from layer to layer (docs/decisions/0071). The session's
    // tests hold its distance to level 0.
    CHECK(distance(logits, expected) <= (level == 0 ? 1e-4 : 5e-2) * norm);
  }
}

TEST_CASE("bert-f32: the encoder's output") { check_outputs("bert-f32"); }

// Gigabytes of weights: run by hand with --no-skip.
TEST_CASE("qwen-0.5b-int4: tokens and logits of ONNX Runtime" * doctest::skip()) {
  check_decoder("qwen-0.5b-int4", 0);
  check_decoder("qwen-0.5b-int4", 4);
}
TEST_CASE("mlp-f32-1g: the chain's output" * doctest::skip()) { check_outputs("mlp-f32-1g"); }

TEST_SUITE_END();
