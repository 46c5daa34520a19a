#include "model.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

double Weight::value(int64_t k, int64_t n) const {
  const int64_t blocks = size / block, at = n * blocks + k / block;
  const int quant = b[static_cast<size_t>((at * block + k % block) / 2)] >> k % 2 * 4 & 15;
  const int zero_point =
      zero_points[static_cast<size_t>(n * ((blocks + 1) / 2) + k / block / 2)] >> k / block % 2 * 4 & 15;
  return (quant - zero_point) * double(scales[static_cast<size_t>(at)]);
}

Weight make_weight(int64_t size, int block, uint32_t seed) {
  std::mt19937 random(seed);
  Weight weight;
  weight.size = size;
  weight.block = block;
  const int64_t blocks = size / block;
  weight.b.resize(static_cast<size_t>(size * size / 2));
  weight.zero_points.resize(static_cast<size_t>(size * ((blocks + 1) / 2)), 0x88);
  weight.scales.resize(static_cast<size_t>(size * blocks));
  for (uint8_t& byte : weight.b) byte = static_cast<uint8_t>(random());
  // Quants less 8 have the mean square 21.5.
  const float scale = 1 / std::sqrt(21.5f * static_cast<float>(size));
  for (float& each : weight.scales) each = scale * std::uniform_real_distribution<float>(0.5f, 1.4f)(random);
  return weight;
}

Ort::Ort(int threads) : api_(OrtGetApiBase()->GetApi(ORT_API_VERSION)) {
  if (api_ == nullptr) {
    std::fprintf(stderr, "ort_custom_op: the library is older than the header\n");
    std::exit(1);
  }
  OrtThreadingOptions* options = nullptr;
  check(api_->CreateThreadingOptions(&options));
  check(api_->SetGlobalIntraOpNumThreads(options, threads));
  check(api_->CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_WARNING, "ompipe", options, &environment_));
  api_->ReleaseThreadingOptions(options);
}

Ort::~Ort() { api_->ReleaseEnv(environment_); }

void Ort::check(OrtStatus* status) const {
  if (status == nullptr) return;
  std::fprintf(stderr, "ort_custom_op: %s\n", api_->GetErrorMessage(status));
  std::exit(1);
}

namespace {

// A message of ONNX's protobuf format, written field by field.
class Message {
 public:
  Message& number(int field, uint64_t value) {
    varint(uint64_t(field) << 3);
    varint(value);
    return *this;
  }
  Message& bytes(int field, const void* data, size_t size) {
    varint(uint64_t(field) << 3 | 2);
    varint(size);
    written_.append(static_cast<const char*>(data), size);
    return *this;
  }
  Message& text(int field, const std::string& value) { return bytes(field, value.data(), value.size()); }
  Message& message(int field, const Message& value) { return text(field, value.written_); }
  const std::string& written() const { return written_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) written_.push_back(char(value | 128));
    written_.push_back(char(value));
  }
  std::string written_;
};

template <typename Element>
Message initializer(const std::string& name, const std::vector<Element>& elements, const std::vector<int64_t>& dims,
                    ONNXTensorElementDataType type) {
  Message tensor;
  for (int64_t dim : dims) tensor.number(1, uint64_t(dim));
  return tensor.number(2, type).text(8, name).bytes(9, elements.data(), elements.size() * sizeof(Element));
}

Message attribute(const char* name, int64_t value) {
  constexpr int kInt = 2;
  return Message().text(1, name).number(3, uint64_t(value)).number(20, kInt);
}

// float32 [rows, size]
Message value_info(const char* name, int64_t size) {
  const Message shape = Message().message(1, Message().text(2, "rows")).message(1, Message().number(1, uint64_t(size)));
  const Message tensor = Message().number(1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

// For each domain a chain x -> one node a weight -> y0 (y1, ...), all over the same weights.
Message graph_of(const std::vector<std::string>& domains, const std::vector<Weight>& weights, int level) {
  Message graph;
  for (size_t chain = 0; chain < domains.size(); ++chain) {
    const auto value = [chain](size_t at) { return "v" + std::to_string(chain) + "_" + std::to_string(at); };
    for (size_t i = 0; i < weights.size(); ++i) {
      const std::string at = std::to_string(i);
      const Weight& weight = weights[i];
      Message node;
      node.text(1, i == 0 ? "x" : value(i)).text(1, "b" + at).text(1, "s" + at).text(1, "z" + at);
      node.text(2, i + 1 == weights.size() ? "y" + std::to_string(chain) : value(i + 1));
      node.text(3, value(i)).text(4, "MatMulNBits").text(7, domains[chain]);
      node.message(5, attribute("K", weight.size)).message(5, attribute("N", weight.size));
      node.message(5, attribute("bits", 4)).message(5, attribute("block_size", weight.block));
      graph.message(1, node.message(5, attribute("accuracy_level", level)));
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string at = std::to_string(i);
    const Weight& weight = weights[i];
    const int64_t blocks = weight.size / weight.block, pairs = int64_t(weight.zero_points.size());
    const std::vector<int64_t> dims = {weight.size, blocks, weight.block / 2};
    graph.message(5, initializer("b" + at, weight.b, dims, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8));
    graph.message(5, initializer("s" + at, weight.scales, {weight.size * blocks}, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
    graph.message(5, initializer("z" + at, weight.zero_points, {pairs}, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8));
  }
  graph.text(2, "chains").message(11, value_info("x", weights.front().size));
  for (size_t chain = 0; chain < domains.size(); ++chain) {
    graph.message(12, value_info(("y" + std::to_string(chain)).c_str(), weights.back().size));
  }
  return graph;
}

Message model_of(const std::vector<std::string>& domains, const std::vector<Weight>& weights, int level) {
  Message model;
  model.number(1, 8);
  for (const auto& [name, version] : {std::pair("", 17), std::pair("com.microsoft", 1), std::pair("ompipe", 1)}) {
    model.message(8, Message().text(1, name).number(2, uint64_t(version)));
  }
  return model.message(7, graph_of(domains, weights, level));
}

}  // namespace

Session::Session(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
                 const std::vector<Weight>& weights, int level)
    : ort_(ort), size_(weights.front().size) {
  ort_.check(make(library, model_of(domains, weights, level).written()));
}

std::string Session::refusal(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
                             const std::vector<Weight>& weights, int level) {
  Session session(ort);
  OrtStatus* const status = session.make(library, model_of(domains, weights, level).written());
  const std::string message = status != nullptr ? ort.api().GetErrorMessage(status) : "";
  ort.api().ReleaseStatus(status);
  return message;
}

OrtStatus* Session::make(const std::string& library, const std::string& model) {
  OrtSessionOptions* options = nullptr;
  ort_.check(ort_.api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_));
  ort_.check(ort_.api().CreateSessionOptions(&options));
  ort_.check(ort_.api().DisablePerSessionThreads(options));
  if (!library.empty()) ort_.check(ort_.api().RegisterCustomOpsLibrary_V2(options, library.c_str()));
  OrtStatus* const status =
      ort_.api().CreateSessionFromArray(ort_.environment(), model.data(), model.size(), options, &session_);
  ort_.api().ReleaseSessionOptions(options);
  return status;
}

Session::~Session() {
  for (OrtValue* value : values_) ort_.api().ReleaseValue(value);
  ort_.api().ReleaseSession(session_);
  ort_.api().ReleaseMemoryInfo(memory_);
}

void Session::bind(int64_t m, std::vector<float>& a, const std::vector<std::vector<float>*>& outs) {
  const int64_t dims[] = {m, size_};
  std::vector<std::vector<float>*> all = {&a};
  all.insert(all.end(), outs.begin(), outs.end());
  for (std::vector<float>* memory : all) {
    OrtValue* value = nullptr;
    ort_.check(ort_.api().CreateTensorWithDataAsOrtValue(memory_, memory->data(), memory->size() * sizeof(float), dims,
                                                         2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
    values_.push_back(value);
  }
}

void Session::run() {
  const char* const x = "x";
  const char* const y[] = {"y0", "y1"};
  ort_.check(ort_.api().Run(session_, nullptr, &x, values_.data(), 1, y, values_.size() - 1, values_.data() + 1));
}
