// The mlp-f32-1g preset: a chain of dense layers, each stored in one of the three ways that ONNX knows.
#include <cmath>

#include "generate_spec.h"

namespace ompipe::cli {

ModelSpec mlp_f32_1g() {
  using model::DType;
  constexpr int64_t kWidth = 4096, kLayers = 16;         // 16 x 64 MiB of weights
  const double limit = std::sqrt(6.0 / double(kWidth));  // He: keeps the second moment through Relu
  ModelSpec spec;
  spec.name = "mlp-f32-1g";
  spec.inputs = {{"input", DType::f32, {symbol("batch_size"), fixed(kWidth)}}};
  spec.outputs = {{"output", DType::f32, {symbol("batch_size"), fixed(kWidth)}}};
  std::string value = "input";
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "layer" + std::to_string(layer) + ".";
    const std::string output = layer + 1 == kLayers ? "output" : prefix + "dense";
    const auto kind = layer % 3;  // MatMul; Gemm with B [K, N]; Gemm with B [N, K]
    std::vector<std::string> operands{value};
    if (kind != 0) {
      spec.weight(
          {.name = prefix + "bias", .dtype = DType::f32, .dims = {kWidth}, .fill = {FillKind::uniform, -0.1, 0.1}});
    }
    operands.push_back(spec.weight({.name = prefix + "weight",
                                    .dtype = DType::f32,
                                    .dims = {kWidth, kWidth},
                                    .fill = {FillKind::uniform, -limit, limit}}));
    if (kind == 0) {
      spec.node("MatMul", operands, output);
    } else {
      operands.push_back(prefix + "bias");
      spec.node("Gemm", operands, output, {{"transB", int64_t(kind - 1)}});
    }
    if (layer + 1 < kLayers) value = spec.node("Relu", {output}, prefix + "relu");
  }
  return spec;
}

}  // namespace ompipe::cli
