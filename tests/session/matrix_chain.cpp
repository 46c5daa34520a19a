#include "matrix_chain.h"

#include <cmath>

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

// Elements around zero, so large that a vector keeps its magnitude from matrix to matrix.
std::string matrix_chain(const test::TempFolder& folder, int count, int64_t side) {
  test::ModelSpec spec;
  const std::string width = std::to_string(side);
  const float scale = 1.7F / std::sqrt(float(side));
  spec.inputs = {{.name = "v0", .dims = {"1", width}}};
  for (int i = 0; i < count; ++i) {
    const std::string weight = "w" + std::to_string(i), from = "v" + std::to_string(i),
                      to = "v" + std::to_string(i + 1);
    Floats elements(size_t(side * side));
    uint32_t random = uint32_t(i + 1);
    for (float& element : elements) {
      random = random * 1664525 + 1013904223;  // Numerical Recipes' generator
      element = scale * (float(random >> 8) / float(1 << 23) - 1);
    }
    spec.initializers.push_back(
        {.name = weight, .dtype = model::DType::f32, .dims = {side, side}, .raw = test::f32_bytes(elements)});
    spec.nodes.push_back({.op = "MatMul", .inputs = {from, weight}, .outputs = {to}});
  }
  spec.outputs = {{.name = "v" + std::to_string(count), .dims = {"1", width}}};
  return folder.write("chain" + std::to_string(count) + ".onnx", test::model_bytes(spec));
}

exec::NamedTensor vector_input(const std::string& name, int64_t side) {
  auto values = std::make_shared<Floats>(size_t(side), 0.5F);
  for (size_t i = 0; i < values->size(); i += 3) (*values)[i] = 1;
  const int64_t shape[] = {1, side};
  auto* const bytes = reinterpret_cast<std::byte*>(values->data());
  return {name, {exec::make_tensor(model::DType::f32, shape, bytes), values}};
}

void settle(Runtime& runtime) {
  runtime.figures();
  runtime.figures();
}

}  // namespace ompipe::session::testing
