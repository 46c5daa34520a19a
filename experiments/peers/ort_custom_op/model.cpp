#include "model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

Ort::Ort(int threads) : api_(OrtGetApiBase()->GetApi(ORT_API_VERSION)) {
  if (api_ == nullptr) {
    std::fprintf(stderr, "ort_custom_op: the library is older than the header\n");
    std::exit(1);
  }
  OrtThreadingOptions* options = nullptr;
  check(api_->CreateThreadingOptions(&options));
  check(api_->SetGlobalIntraOpNumThreads(options, threads));
  check(api_->CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_FATAL, "ompipe", options, &environment_));
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
  Message& append(const Message& fields) {
    written_ += fields.written_;
    return *this;
  }
  const std::string& written() const { return written_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) written_.push_back(char(value | 128));
    written_.push_back(char(value));
  }
  std::string written_;
};

template <typename Number>
Message initializer(const std::string& name, const std::vector<Number>& numbers, const std::vector<int64_t>& dims,
                    ONNXTensorElementDataType type) {
  Message tensor;
  for (int64_t dim : dims) tensor.number(1, uint64_t(dim));
  return tensor.number(2, type).text(8, name).bytes(9, numbers.data(), numbers.size() * sizeof(Number));
}

ONNXTensorElementDataType type_of(Element element) {
  return element == Element::f16 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

Message initializer(const std::string& name, const std::vector<float>& numbers, Element element) {
  const std::vector<int64_t> dims = {int64_t(numbers.size())};
  if (element == Element::f32) return initializer(name, numbers, dims, type_of(element));
  return initializer(name, to_halves(numbers), dims, type_of(element));
}

Message attribute(const char* name, int64_t value) {
  constexpr int kInt = 2;
  return Message().text(1, name).number(3, uint64_t(value)).number(20, kInt);
}

// [rows, size]
Message value_info(const char* name, const Weight& weight) {
  const Message size = Message().number(1, uint64_t(weight.size));
  const Message shape = Message().message(1, Message().text(2, "rows")).message(1, size);
  const Message tensor = Message().number(1, type_of(weight.format.rows)).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

Element zero_point_element(const Format& format) {
  return format.zero_points == ZeroPoints::f16 ? Element::f16 : Element::f32;
}

// The names of weight i's scales and zero points in a domain.
std::string scales_name(const std::string& domain, const Format& format, const std::string& at) {
  return (domain == kTheirs && format.scales != format.rows ? "t" : "s") + at;
}

std::string zero_points_name(const std::string& domain, const Weight& weight, const std::string& at) {
  if (weight.format.zero_points == ZeroPoints::none) return "";
  const bool other =
      has_fractions(weight.format.zero_points) && zero_point_element(weight.format) != weight.format.rows;
  return (domain == kTheirs && other ? "u" : "z") + at;
}

Message node_of(const std::string& domain, const Weight& weight, const std::string& at) {
  const Format& format = weight.format;
  Message node;
  node.text(1, "b" + at).text(1, scales_name(domain, format, at)).text(1, zero_points_name(domain, weight, at));
  if (format.bias) node.text(1, "").text(1, "c" + at);
  node.text(4, "MatMulNBits").text(7, domain);
  node.message(5, attribute("K", weight.size)).message(5, attribute("N", weight.size));
  node.message(5, attribute("bits", format.bits)).message(5, attribute("block_size", format.block));
  return node.message(5, attribute("accuracy_level", format.level));
}

// Constants that several chains have are written once.
class Initializers {
 public:
  explicit Initializers(Message& graph) : graph_(graph) {}

  void add(const std::string& domain, const Weight& weight, const std::string& at) {
    const Format& format = weight.format;
    const bool theirs = domain == kTheirs;
    const std::vector<int64_t> dims = {weight.size, weight.blocks(), int64_t{format.block} * format.bits / 8};
    add("b" + at, weight.b, dims, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
    add(scales_name(domain, format, at), weight.scales, theirs ? format.rows : format.scales);
    const std::string zero_points = zero_points_name(domain, weight, at);
    if (has_fractions(weight.format.zero_points)) {
      add(zero_points, weight.zero_points, theirs ? format.rows : zero_point_element(format));
    } else if (format.zero_points == ZeroPoints::packed) {
      const std::vector<uint8_t>& packed = weight.packed_zero_points;
      add(zero_points, packed, {int64_t(packed.size())}, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
    }
    if (format.bias) add("c" + at, weight.bias, format.rows);
  }

 private:
  void add(const std::string& name, const std::vector<float>& numbers, Element element) {
    if (names_.insert(name).second) graph_.message(5, initializer(name, numbers, element));
  }
  void add(const std::string& name, const std::vector<uint8_t>& bytes, const std::vector<int64_t>& dims,
           ONNXTensorElementDataType type) {
    if (names_.insert(name).second) graph_.message(5, initializer(name, bytes, dims, type));
  }

  Message& graph_;
  std::set<std::string> names_;
};

// For each domain a chain x -> one node a weight -> y0 (y1, ...), all over the same weights.
Message graph_of(const std::vector<std::string>& domains, const std::vector<Weight>& weights) {
  Message graph;
  Initializers initializers(graph);
  for (size_t chain = 0; chain < domains.size(); ++chain) {
    const auto value = [chain](size_t at) { return "v" + std::to_string(chain) + "_" + std::to_string(at); };
    for (size_t i = 0; i < weights.size(); ++i) {
      Message node =
          Message().text(1, i == 0 ? "x" : value(i)).append(node_of(domains[chain], weights[i], std::to_string(i)));
      node.text(2, i + 1 == weights.size() ? "y" + std::to_string(chain) : value(i + 1)).text(3, value(i));
      graph.message(1, node);
      initializers.add(domains[chain], weights[i], std::to_string(i));
    }
  }
  graph.text(2, "chains").message(11, value_info("x", weights.front()));
  for (size_t chain = 0; chain < domains.size(); ++chain) {
    graph.message(12, value_info(("y" + std::to_string(chain)).c_str(), weights.front()));
  }
  return graph;
}

Message model_of(const std::vector<std::string>& domains, const std::vector<Weight>& weights) {
  Message model;
  model.number(1, 8);
  for (const auto& [name, version] : {std::pair("", 17), std::pair("com.microsoft", 1), std::pair("ompipe", 1)}) {
    model.message(8, Message().text(1, name).number(2, uint64_t(version)));
  }
  return model.message(7, graph_of(domains, weights));
}

}  // namespace

Session::Session(const Ort& ort, const std::vector<Weight>& weights)
    : ort_(ort), size_(weights.front().size), rows_(weights.front().format.rows) {}

Session::Session(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
                 const std::vector<Weight>& weights)
    : Session(ort, weights) {
  ort_.check(make(library, model_of(domains, weights).written()));
}

std::string Session::refusal(const Ort& ort, const std::string& library, const std::vector<std::string>& domains,
                             const std::vector<Weight>& weights) {
  const std::vector<float> a(static_cast<size_t>(weights.front().size), 1);
  std::vector<float> out = a;
  Session session(ort, weights);
  OrtStatus* status = session.make(library, model_of(domains, weights).written());
  if (status == nullptr) {
    session.bind(1, a, {&out});
    status = session.try_run();
  }
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

void Session::bind(int64_t m, const std::vector<float>& a, const std::vector<std::vector<float>*>& outs) {
  const int64_t dims[] = {m, size_};
  bound_.push_back({nullptr, to_halves(a)});
  for (std::vector<float>* out : outs) bound_.push_back({out, to_halves(*out)});
  for (Bound& each : bound_) {
    const std::vector<float>& floats = each.out != nullptr ? *each.out : a;
    // ONNX Runtime takes memory of inputs as of outputs, and writes to outputs only.
    void* at = const_cast<float*>(floats.data());
    if (rows_ == Element::f16) at = each.halves.data();
    const size_t bytes = floats.size() * (rows_ == Element::f16 ? sizeof(uint16_t) : sizeof(float));
    OrtValue* value = nullptr;
    ort_.check(ort_.api().CreateTensorWithDataAsOrtValue(memory_, at, bytes, dims, 2, type_of(rows_), &value));
    values_.push_back(value);
  }
}

OrtStatus* Session::try_run() {
  const char* const x = "x";
  const char* const y[] = {"y0", "y1"};
  return ort_.api().Run(session_, nullptr, &x, values_.data(), 1, y, values_.size() - 1, values_.data() + 1);
}

void Session::run() {
  ort_.check(try_run());
  if (rows_ == Element::f32) return;
  for (const Bound& each : bound_) {
    if (each.out != nullptr) std::ranges::transform(each.halves, each.out->begin(), half_value);
  }
}
