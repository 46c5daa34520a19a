// ONNX Runtime: a model of one node, MatMul or com.microsoft::MatMulNBits, whose session packs the weights.
#include <onnxruntime_c_api.h>

#include <protozero/pbf_writer.hpp>

#include "peer.h"

namespace ompipe::bench {
namespace {

using protozero::pbf_writer;

constexpr int kFloat = 1, kUint8 = 2;  // TensorProto.DataType

// Field numbers are those of onnx.proto (ONNX 1.12).
void add_initializer(pbf_writer& graph, const char* name, int type, std::vector<int64_t> dims, const void* data,
                     size_t bytes) {
  pbf_writer tensor(graph, 5);
  for (const int64_t dim : dims) tensor.add_int64(1, dim);
  tensor.add_int32(2, type);
  tensor.add_string(8, name);
  tensor.add_bytes(9, static_cast<const char*>(data), bytes);
}

void add_port(pbf_writer& graph, uint32_t field, const char* name, int64_t rows, int64_t columns) {
  pbf_writer value(graph, field);
  value.add_string(1, name);
  pbf_writer type(value, 2);
  pbf_writer tensor(type, 1);
  tensor.add_int32(1, kFloat);
  pbf_writer shape(tensor, 2);
  for (const int64_t size : {rows, columns}) {
    pbf_writer dim(shape, 1);
    dim.add_int64(1, size);
  }
}

void add_int(pbf_writer& node, const char* name, int64_t value) {
  pbf_writer attribute(node, 5);
  attribute.add_string(1, name);
  attribute.add_int64(3, value);
  attribute.add_int32(20, 2);
}

void add_opset(pbf_writer& model, const char* domain, int64_t version) {
  pbf_writer opset(model, 8);
  opset.add_string(1, domain);
  opset.add_int64(2, version);
}

std::string model_of(const MatMulCase& measured, const MatMulOperands& operands) {
  const kernels::MatMulSpec& spec = measured.spec;
  std::string bytes;
  pbf_writer model(bytes);
  model.add_int64(1, 8);
  {
    pbf_writer graph(model, 7);
    {
      pbf_writer node(graph, 1);
      for (const char* input : {"a", "b"}) node.add_string(1, input);
      if (measured.nbits()) node.add_string(1, "scales");
      node.add_string(2, "out");
      node.add_string(4, measured.nbits() ? "MatMulNBits" : "MatMul");
      if (measured.nbits()) {
        add_int(node, "K", spec.k);
        add_int(node, "N", spec.n);
        add_int(node, "bits", 4);
        add_int(node, "block_size", spec.block);
        add_int(node, "accuracy_level", spec.accuracy_level);
        node.add_string(7, "com.microsoft");
      }
    }
    graph.add_string(2, "product");
    if (measured.nbits()) {
      const int64_t blocks = (spec.k + spec.block - 1) / spec.block;
      add_initializer(graph, "b", kUint8, {spec.n, blocks, spec.block / 2}, operands.b.data(),
                      operands.layout.source_bytes);
      add_initializer(graph, "scales", kFloat, {spec.n * blocks}, operands.scales.data(), operands.scales.size() * 4);
    } else {
      add_initializer(graph, "b", kFloat, {spec.k, spec.n}, operands.b.data(), operands.layout.source_bytes);
    }
    add_port(graph, 11, "a", measured.m, spec.k);
    add_port(graph, 12, "out", measured.m, spec.n);
  }
  add_opset(model, "", 17);
  add_opset(model, "com.microsoft", 1);
  return bytes;
}

const OrtApi& api() {
  static const OrtApi* const found = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (found == nullptr) give_up("the library is older than the header of ONNX Runtime");
  return *found;
}

void check(OrtStatus* status) {
  if (status == nullptr) return;
  const std::string message = api().GetErrorMessage(status);
  api().ReleaseStatus(status);
  give_up(message);
}

struct Release {
  void operator()(OrtEnv* x) const { api().ReleaseEnv(x); }
  void operator()(OrtThreadingOptions* x) const { api().ReleaseThreadingOptions(x); }
  void operator()(OrtSessionOptions* x) const { api().ReleaseSessionOptions(x); }
  void operator()(OrtSession* x) const { api().ReleaseSession(x); }
  void operator()(OrtMemoryInfo* x) const { api().ReleaseMemoryInfo(x); }
  void operator()(OrtValue* x) const { api().ReleaseValue(x); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

// With one pool of threads for all sessions: pools of their own would spin beside the one that is measured.
Owned<OrtEnv> environment(int threads) {
  OrtThreadingOptions* made = nullptr;
  check(api().CreateThreadingOptions(&made));
  const Owned<OrtThreadingOptions> options(made);
  check(api().SetGlobalIntraOpNumThreads(options.get(), threads));
  check(api().SetGlobalInterOpNumThreads(options.get(), 1));
  OrtEnv* env = nullptr;
  check(api().CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_ERROR, "peer", options.get(), &env));
  return Owned<OrtEnv>(env);
}

class Ort : public Peer {
 public:
  Ort(const MatMulCase& measured, const MatMulOperands& operands)
      : environment_(environment(measured.threads)), out_(measured.m * measured.spec.n * 4) {
    OrtSessionOptions* made = nullptr;
    check(api().CreateSessionOptions(&made));
    const Owned<OrtSessionOptions> options(made);
    check(api().DisablePerSessionThreads(options.get()));
    const std::string model = model_of(measured, operands);
    for (int64_t i = 0; i < measured.copies(operands.layout.source_bytes); ++i) {
      OrtSession* session = nullptr;
      check(api().CreateSessionFromArray(environment_.get(), model.data(), model.size(), options.get(), &session));
      sessions_.emplace_back(session);
    }
    OrtMemoryInfo* info = nullptr;
    check(api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info));
    info_.reset(info);
    a_value_ = value(operands.a.floats(), measured.m, measured.spec.k);
    out_value_ = value(out_.floats(), measured.m, measured.spec.n);
  }
  const float* run() override {
    const char *input = "a", *output = "out";
    const OrtValue* inputs[] = {a_value_.get()};
    OrtValue* outputs[] = {out_value_.get()};
    check(api().Run(sessions_[next_++ % sessions_.size()].get(), nullptr, &input, inputs, 1, &output, 1, outputs));
    return out_.floats();
  }

 private:
  Owned<OrtValue> value(float* data, int64_t rows, int64_t columns) const {
    const int64_t dims[] = {rows, columns};
    OrtValue* made = nullptr;
    check(api().CreateTensorWithDataAsOrtValue(info_.get(), data, rows * columns * 4, dims, 2,
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made));
    return Owned<OrtValue>(made);
  }

  Owned<OrtEnv> environment_;
  BenchMemory out_;
  Owned<OrtMemoryInfo> info_;
  Owned<OrtValue> a_value_, out_value_;
  std::vector<Owned<OrtSession>> sessions_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Peer> make_ort(const MatMulCase& measured, const MatMulOperands& operands) {
  return std::make_unique<Ort>(measured, operands);
}

}  // namespace ompipe::bench
