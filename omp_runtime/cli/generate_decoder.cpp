// The decoder presets, in the form that exporters for ONNX Runtime's CPU provider write.
#include <cmath>

#include "generate_spec.h"

namespace ompipe::cli {
namespace {

using model::DType;

constexpr int64_t kBlock = 32;               // elements of a row that share a scale
constexpr double kNibbleDeviation = 4.1833;  // sqrt(17.5), see FillKind::nibbles
constexpr float kEpsilon = 1e-6f;

// Sharp attention (scores of deviation 4) whose share of the residual stays small. With both at 1, attention averages
// over the whole prompt, the current token hardly matters, and greedy decoding falls into one token for ever (decision
// 0050).
constexpr double kQkvGain = 2.0, kAttentionGain = 0.25;

struct DecoderShape {
  const char* name;
  int64_t hidden, intermediate, blocks, heads, kv_heads, vocab, positions;
  double theta;
  bool fused;     // one QKV and one gate/up projection, as in the reference document's example; else separate ones
  bool tied;      // INT4 embedding that is the LM head too; else a float16 table and an INT4 head
  bool qkv_bias;  // on the separate q, k and v

  int64_t head_dim() const { return hidden / heads; }
  int64_t kv_width() const { return kv_heads * head_dim(); }
};

// Builds one decoder, node by node in execution order.
class Decoder {
 public:
  Decoder(const DecoderShape& shape, int accuracy_level) : shape_(shape), accuracy_level_(accuracy_level) {
    spec_.name = shape.name;
  }

  ModelSpec build() {
    declare_inputs_and_outputs();
    lengths_from_mask();
    std::string hidden = embedding();
    rotary_caches();
    std::string last_output;  // of the previous block, not yet added to `hidden`
    for (int64_t block = 0; block < shape_.blocks; ++block) {
      const std::string prefix = "layer" + std::to_string(block) + ".";
      const std::string attn_gain = gain(prefix + "attn_norm"), mlp_gain = gain(prefix + "mlp_norm");
      if (!shape_.fused && shape_.qkv_bias) biases(prefix);
      const std::string normed = norm(prefix + "attn_norm", hidden, last_output, attn_gain);
      const std::string attended = attention(prefix, block, normed);
      const std::string mlp_input = norm(prefix + "mlp_norm", hidden, attended, mlp_gain);
      last_output = mlp(prefix, mlp_input);
    }
    std::string unused = hidden;
    const std::string normed = norm("final_norm", unused, last_output, gain("final_norm"), true);
    head(normed);
    return std::move(spec_);
  }

 private:
  void declare_inputs_and_outputs() {
    const model::Dim batch = symbol("batch_size"), sequence = symbol("sequence_length");
    const model::Dim total = symbol("total_sequence_length"), past = symbol("past_sequence_length");
    const model::Dim kv_heads = fixed(shape_.kv_heads), head_dim = fixed(shape_.head_dim());
    spec_.inputs = {{"input_ids", DType::i64, {batch, sequence}}, {"attention_mask", DType::i64, {batch, total}}};
    spec_.outputs = {{"logits", DType::f32, {batch, sequence, fixed(shape_.vocab)}}};
    for (int64_t block = 0; block < shape_.blocks; ++block) {
      const std::string number = std::to_string(block);
      for (const char* part : {".key", ".value"}) {
        spec_.inputs.push_back({"past_key_values." + number + part, DType::f32, {batch, kv_heads, past, head_dim}});
        spec_.outputs.push_back({"present." + number + part, DType::f32, {batch, kv_heads, total, head_dim}});
      }
    }
  }

  void lengths_from_mask() {
    const AttributeSpec to_int32{"to", int64_t(DType::i32)};
    const std::string one = spec_.int64s("one", {1});
    const std::string sum = spec_.node("ReduceSum", {"attention_mask", one}, "mask_sum", {{"keepdims", int64_t(0)}});
    spec_.node("Cast", {spec_.node("Sub", {sum, one}, "mask_sum_minus_one")}, "seqlens_k", {to_int32});
    const std::string mask_shape = spec_.node("Shape", {"attention_mask"}, "mask_shape");
    const std::string total = spec_.node("Gather", {mask_shape, spec_.int64s("one_scalar", {1}, true)}, "mask_length",
                                         {{"axis", int64_t(0)}});
    spec_.node("Cast", {total}, "total_sequence_length", {to_int32});
  }

  std::string embedding() {
    if (!shape_.tied) {
      const double limit = std::sqrt(3.0);  // deviation 1
      const std::string table = spec_.weight({.name = "embedding.weight",
                                              .dtype = DType::f16,
                                              .dims = {shape_.vocab, shape_.hidden},
                                              .fill = {FillKind::table_f16, -limit, limit},
                                              .row_addressed = true});
      const std::string rows = spec_.node("Gather", {table, "input_ids"}, "embedding.rows", {{"axis", int64_t(0)}});
      return spec_.node("Cast", {rows}, "embedding", {{"to", int64_t(DType::f32)}});
    }
    const std::string data = spec_.weight({.name = "embedding.weight",
                                           .dtype = DType::u8,
                                           .dims = {shape_.vocab, shape_.hidden / 2},
                                           .row_addressed = true});
    const std::string scales = quantized_scales("embedding.scales", shape_.vocab, shape_.hidden, 1.0);
    spec_.weights.back().row_addressed = true;
    return spec_.node(
        "GatherBlockQuantized", {data, "input_ids", scales}, "embedding",
        {{"gather_axis", int64_t(0)}, {"quantize_axis", int64_t(1)}, {"block_size", kBlock}, {"bits", int64_t(4)}},
        kMicrosoft);
  }

  void rotary_caches() {
    for (const bool cosine : {true, false}) {
      spec_.weight({.name = cosine ? "cos_cache" : "sin_cache",
                    .dtype = DType::f32,
                    .dims = {shape_.positions, shape_.head_dim() / 2},
                    .fill = {cosine ? FillKind::cosine : FillKind::sine, 0, shape_.theta}});
    }
  }

  std::string gain(const std::string& name) {
    return spec_.weight({.name = name + ".weight",
                         .dtype = DType::f32,
                         .dims = {shape_.hidden},
                         .fill = {FillKind::uniform_f16, 0.75, 1.25}});
  }

  void biases(const std::string& prefix) {
    for (const char* part : {"q", "k", "v"}) {
      spec_.weight({.name = prefix + part + ".bias",
                    .dtype = DType::f32,
                    .dims = {part[0] == 'q' ? shape_.hidden : shape_.kv_width()},
                    .fill = {FillKind::uniform_f16, -0.5, 0.5}});
    }
  }

  // Scales that give a row of K weights deviation gain / sqrt(K), so that a product has `gain` times its input's
  // deviation.
  std::string quantized_scales(const std::string& name, int64_t rows, int64_t columns, double gain) {
    const double middle = gain / (kNibbleDeviation * std::sqrt(double(columns)));
    return spec_.weight({.name = name,
                         .dtype = DType::f32,
                         .dims = {rows, columns / kBlock},
                         .fill = {FillKind::uniform_f16, 0.5 * middle, 1.5 * middle}});
  }

  // Normalises `residual` + `added`; `residual` becomes that sum. With nothing to add, of `residual` alone.
  std::string norm(const std::string& name, std::string& residual, const std::string& added, const std::string& gain,
                   bool last = false) {
    if (added.empty()) {
      return spec_.node("SimplifiedLayerNormalization", {residual, gain}, name,
                        {{"axis", int64_t(-1)}, {"epsilon", kEpsilon}, {"stash_type", int64_t(1)}});
    }
    spec_.node("SkipSimplifiedLayerNormalization", {residual, added, gain}, name, {{"epsilon", kEpsilon}}, kMicrosoft);
    if (!last) {
      residual = name + ".sum";
      spec_.nodes.back().outputs = {name, "", "", residual};
    }
    return name;
  }

  std::string matmul(const std::string& name, const std::string& input, int64_t inputs, int64_t outputs,
                     double gain = 1.0, const std::string& bias = {}) {
    const std::string data =
        spec_.weight({.name = name + ".weight", .dtype = DType::u8, .dims = {outputs, inputs / kBlock, kBlock / 2}});
    return matmul_nbits(name, {input, data, quantized_scales(name + ".scales", outputs, inputs, gain)}, inputs, outputs,
                        bias);
  }

  std::string matmul_nbits(const std::string& name, std::vector<std::string> operands, int64_t inputs, int64_t outputs,
                           const std::string& bias) {
    if (!bias.empty()) operands.insert(operands.end(), {"", "", bias});  // no zero points, no g_idx
    return spec_.node("MatMulNBits", operands, name,
                      {{"K", inputs},
                       {"N", outputs},
                       {"bits", int64_t(4)},
                       {"block_size", kBlock},
                       {"accuracy_level", int64_t(accuracy_level_)}},
                      kMicrosoft);
  }

  std::string attention(const std::string& prefix, int64_t block, const std::string& input) {
    const int64_t hidden = shape_.hidden, kv_width = shape_.kv_width();
    std::vector<std::string> operands;
    if (shape_.fused) {
      operands = {matmul(prefix + "qkv", input, hidden, hidden + 2 * kv_width, kQkvGain), "", ""};
    } else {
      for (const char* part : {"q", "k", "v"}) {
        const std::string bias = shape_.qkv_bias ? prefix + part + ".bias" : "";
        operands.push_back(matmul(prefix + part, input, hidden, part[0] == 'q' ? hidden : kv_width, kQkvGain, bias));
      }
    }
    const std::string past = "past_key_values." + std::to_string(block), present = "present." + std::to_string(block);
    operands.insert(operands.end(),
                    {past + ".key", past + ".value", "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache"});
    const std::string context = spec_.node("GroupQueryAttention", operands, prefix + "attention",
                                           {{"num_heads", shape_.heads},
                                            {"kv_num_heads", shape_.kv_heads},
                                            {"scale", float(1.0 / std::sqrt(double(shape_.head_dim())))},
                                            {"do_rotary", int64_t(1)},
                                            {"rotary_interleaved", int64_t(0)},
                                            {"local_window_size", int64_t(-1)}},
                                           kMicrosoft);
    spec_.nodes.back().outputs = {context, present + ".key", present + ".value"};
    return matmul(prefix + "attn_out", context, hidden, hidden, kAttentionGain);
  }

  std::string mlp(const std::string& prefix, const std::string& input) {
    const int64_t hidden = shape_.hidden, inner = shape_.intermediate;
    std::string gate = prefix + "gate", up = prefix + "up";
    if (shape_.fused) {
      const std::string both = matmul(prefix + "gate_up", input, hidden, 2 * inner);
      spec_.node("Split", {both}, gate, {{"axis", int64_t(-1)}});
      spec_.nodes.back().outputs = {gate, up};
    } else {
      matmul(gate, input, hidden, inner);
      matmul(up, input, hidden, inner);
    }
    const std::string silu =
        spec_.node("Mul", {gate, spec_.node("Sigmoid", {gate}, prefix + "sigmoid")}, prefix + "silu");
    return matmul(prefix + "down", spec_.node("Mul", {silu, up}, prefix + "gated"), inner, hidden);
  }

  void head(const std::string& input) {
    if (!shape_.tied) {
      matmul("lm_head", input, shape_.hidden, shape_.vocab);
    } else {
      const std::string data = spec_.weight({.name = "lm_head.weight",
                                             .dtype = DType::u8,
                                             .dims = {shape_.vocab, shape_.hidden / kBlock, kBlock / 2},
                                             .same_bytes_as = "embedding.weight"});
      matmul_nbits("lm_head", {input, data, "embedding.scales"}, shape_.hidden, shape_.vocab, {});
    }
    spec_.nodes.back().outputs = {"logits"};
  }

  const DecoderShape& shape_;
  const int accuracy_level_;
  ModelSpec spec_;
};

}  // namespace

ModelSpec tiny_int4(int accuracy_level) {
  const DecoderShape shape{"tiny-int4", 512, 2048, 4, 8, 8, 8192, 2048, 1e4, true, true, false};
  return Decoder(shape, accuracy_level).build();
}

ModelSpec qwen_0_5b_int4(int accuracy_level) {
  const DecoderShape shape{"qwen-0.5b-int4", 896, 4864, 24, 14, 2, 151936, 4096, 1e6, false, false, true};
  return Decoder(shape, accuracy_level).build();
}

ModelSpec llama_1_1b_int4(int accuracy_level) {
  const DecoderShape shape{"llama-1.1b-int4", 2048, 5632, 22, 32, 4, 32000, 2048, 1e4, false, false, false};
  return Decoder(shape, accuracy_level).build();
}

}  // namespace ompipe::cli
