#include "matrix_chain.h"

namespace ompipe::session::testing {

std::vector<plan::Read> reads_of(const plan::PreparedObject& object) {
  std::vector<plan::Read> reads = object.aux_reads;
  for (const plan::Chunk& chunk : object.chunks) reads.insert(reads.end(), chunk.reads.begin(), chunk.reads.end());
  return reads;
}

const io::FileHandle& file_of(const RuntimeSession& session, const plan::Read& read) {
  return *session.plan().model->files()[size_t(read.file)].handle;
}

void open(io::GatedDevice& device, const RuntimeSession& session, plan::ObjectId id) {
  for (const plan::Read& read : reads_of(session.plan().objects[size_t(id)]))
    device.open(file_of(session, read), read.offset, read.length);
}

std::string matrix_chain(const test::TempFolder& folder, int count, int64_t side) {
  test::ModelSpec spec;
  const std::string width = std::to_string(side);
  spec.inputs = {{.name = "v0", .dims = {"1", width}}};
  for (int i = 0; i < count; ++i) {
    const std::string weight = "w" + std::to_string(i), from = "v" + std::to_string(i),
                      to = "v" + std::to_string(i + 1);
    test::Tensor tensor = test::zeros(weight, model::DType::f32, {side, side});
    for (size_t at = 3; at < tensor.raw.size(); at += 7) tensor.raw[at] = char(i);  // no two of them alike
    spec.initializers.push_back(std::move(tensor));
    spec.nodes.push_back({.op = "MatMul", .inputs = {from, weight}, .outputs = {to}});
  }
  spec.outputs = {{.name = "v" + std::to_string(count), .dims = {"1", width}}};
  return folder.write("chain.onnx", test::model_bytes(spec));
}

exec::NamedTensor vector_input(const std::string& name, int64_t side) {
  auto values = std::make_shared<Floats>(size_t(side), 0.5f);
  const int64_t shape[] = {1, side};
  auto* const bytes = reinterpret_cast<std::byte*>(values->data());
  return {name, {exec::make_tensor(model::DType::f32, shape, bytes), values}};
}

void settle(Runtime& runtime) {
  runtime.figures();
  runtime.figures();
}

}  // namespace ompipe::session::testing
