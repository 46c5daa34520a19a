// The bert-f32 preset: an encoder of plain operators, as exporters write it before any fusion.
#include <cmath>
#include <numeric>

#include "generate_spec.h"

namespace ompipe::cli {
namespace {

using model::DType;

constexpr int64_t kHidden = 384, kInner = 1536, kHeads = 12, kHeadDim = kHidden / kHeads, kLayers = 12;
constexpr int64_t kVocab = 30522, kPositions = 512, kTypes = 2;

class Encoder {
 public:
  ModelSpec build() {
    spec_.name = "bert-f32";
    const model::SymbolicShape tokens{symbol("batch_size"), symbol("sequence_length")};
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) {
      spec_.inputs.push_back({name, DType::i64, tokens});
    }
    spec_.outputs = {{"last_hidden_state", DType::f32, {tokens[0], tokens[1], fixed(kHidden)}}};
    mask();
    std::string hidden = embeddings();
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = "layer" + std::to_string(layer) + ".";
      layer_weights(prefix);
      const std::string attended = dense(prefix + "attn_out", attention(prefix, hidden), kHidden, kHidden);
      const std::string middle = norm(prefix + "attn_norm", spec_.node("Add", {attended, hidden}, prefix + "attn_sum"));
      const std::string inner = gelu(prefix + "gelu", dense(prefix + "up", middle, kHidden, kInner));
      const std::string outer = dense(prefix + "down", inner, kInner, kHidden);
      const bool last = layer + 1 == kLayers;
      hidden = norm(prefix + "mlp_norm", spec_.node("Add", {outer, middle}, prefix + "mlp_sum"),
                    last ? "last_hidden_state" : "");
    }
    return std::move(spec_);
  }

 private:
  static AttributeSpec axis(int64_t value) { return {"axis", value}; }

  // Attention scores get 0 where the mask is 1 and -10000 where it is 0.
  void mask() {
    const std::string rows = spec_.node("Unsqueeze", {"attention_mask", spec_.int64s("axis_1", {1})}, "mask.rows");
    const std::string heads = spec_.node("Unsqueeze", {rows, spec_.int64s("axis_2", {2})}, "mask.heads");
    const std::string cast = spec_.node("Cast", {heads}, "mask.float", {{"to", int64_t(DType::f32)}});
    const std::string hidden = spec_.node("Sub", {spec_.scalar("one", 1.0f), cast}, "mask.hidden");
    spec_.node("Mul", {hidden, spec_.scalar("masked_score", -10000.0f)}, "mask");
  }

  std::string table(const std::string& name, int64_t rows) {
    const double limit = std::sqrt(3.0);
    return spec_.weight({.name = name,
                         .dtype = DType::f32,
                         .dims = {rows, kHidden},
                         .fill = {FillKind::uniform, -limit, limit},
                         .row_addressed = true});
  }

  std::string dim(const std::string& shape, const std::string& name, int64_t index) {
    const std::string which = spec_.int64s("index_" + std::to_string(index), {index}, true);
    const std::string size = spec_.node("Gather", {shape, which}, name, {axis(0)});
    return spec_.node("Unsqueeze", {size, spec_.int64s("axis_0", {0})}, name + ".unsqueezed");
  }

  std::string embeddings() {
    norm_weights("embedding.norm");
    const std::string words =
        spec_.node("Gather", {table("embedding.word.weight", kVocab), "input_ids"}, "embedding.word", {axis(0)});
    const std::string types =
        spec_.node("Gather", {table("embedding.type.weight", kTypes), "token_type_ids"}, "embedding.type", {axis(0)});
    std::vector<int64_t> all(kPositions);
    std::iota(all.begin(), all.end(), 0);
    const std::string length = dim(spec_.node("Shape", {"input_ids"}, "ids.shape"), "ids.length", 1);
    const std::string positions = spec_.node(
        "Slice", {spec_.int64s("all_positions", all), spec_.int64s("axis_0", {0}), length, spec_.int64s("axis_0", {0})},
        "positions");
    const std::string places = spec_.node("Gather", {table("embedding.position.weight", kPositions), positions},
                                          "embedding.position", {axis(0)});
    const std::string sum = spec_.node("Add", {words, types}, "embedding.word_and_type");
    return norm("embedding.norm", spec_.node("Add", {sum, places}, "embedding.sum"));
  }

  void small(const std::string& name, int64_t width, double low, double high) {
    spec_.weight({.name = name, .dtype = DType::f32, .dims = {width}, .fill = {FillKind::uniform, low, high}});
  }

  void norm_weights(const std::string& name) {
    small(name + ".weight", kHidden, 0.75, 1.25);
    small(name + ".bias", kHidden, -0.1, 0.1);
  }

  void layer_weights(const std::string& prefix) {
    for (const char* part : {"q", "k", "v", "attn_out", "up", "down"}) {
      small(prefix + part + ".bias", part == std::string("up") ? kInner : kHidden, -0.1, 0.1);
    }
    norm_weights(prefix + "attn_norm");
    norm_weights(prefix + "mlp_norm");
  }

  std::string norm(const std::string& name, const std::string& input, const std::string& output = {}) {
    const std::vector<AttributeSpec> over_last{{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t(1)}};
    const std::string mean = spec_.node("ReduceMean", {input}, name + ".mean", over_last);
    const std::string centred = spec_.node("Sub", {input, mean}, name + ".centred");
    const std::string square = spec_.node("Pow", {centred, spec_.scalar("two", 2.0f)}, name + ".square");
    const std::string variance = spec_.node("ReduceMean", {square}, name + ".variance", over_last);
    const std::string safe = spec_.node("Add", {variance, spec_.scalar("norm_epsilon", 1e-12f)}, name + ".safe");
    const std::string deviation = spec_.node("Sqrt", {safe}, name + ".deviation");
    const std::string normed = spec_.node("Div", {centred, deviation}, name + ".normed");
    const std::string scaled = spec_.node("Mul", {normed, name + ".weight"}, name + ".scaled");
    return spec_.node("Add", {scaled, name + ".bias"}, output.empty() ? name : output);
  }

  std::string dense(const std::string& name, const std::string& input, int64_t inputs, int64_t outputs) {
    const double limit = std::sqrt(3.0 / double(inputs));
    const std::string weight = spec_.weight({.name = name + ".weight",
                                             .dtype = DType::f32,
                                             .dims = {inputs, outputs},
                                             .fill = {FillKind::uniform, -limit, limit}});
    return spec_.node("Add", {spec_.node("MatMul", {input, weight}, name + ".product"), name + ".bias"}, name);
  }

  std::string heads(const std::string& name, const std::string& value, const std::string& shape,
                    const std::vector<int64_t>& permutation) {
    const std::string split = spec_.node("Reshape", {value, shape}, name + ".split");
    return spec_.node("Transpose", {split}, name + ".heads", {{"perm", permutation}});
  }

  std::string attention(const std::string& prefix, const std::string& input) {
    const std::string input_shape = spec_.node("Shape", {input}, prefix + "shape");
    const std::string batch = dim(input_shape, prefix + "batch", 0), length = dim(input_shape, prefix + "length", 1);
    const std::string split_shape =
        spec_.node("Concat", {batch, length, spec_.int64s("heads", {kHeads}), spec_.int64s("head_dim", {kHeadDim})},
                   prefix + "split_shape", {axis(0)});
    const std::string joined_shape =
        spec_.node("Concat", {batch, length, spec_.int64s("hidden", {kHidden})}, prefix + "joined_shape", {axis(0)});
    const std::string q = heads(prefix + "q", dense(prefix + "q", input, kHidden, kHidden), split_shape, {0, 2, 1, 3});
    const std::string k = heads(prefix + "k", dense(prefix + "k", input, kHidden, kHidden), split_shape, {0, 2, 3, 1});
    const std::string v = heads(prefix + "v", dense(prefix + "v", input, kHidden, kHidden), split_shape, {0, 2, 1, 3});
    const std::string product = spec_.node("MatMul", {q, k}, prefix + "scores.product");
    const std::string scores = spec_.node("Div", {product, spec_.scalar("root_head_dim", std::sqrt(float(kHeadDim)))},
                                          prefix + "scores.scaled");
    const std::string masked = spec_.node("Add", {scores, "mask"}, prefix + "scores");
    const std::string chances = spec_.node("Softmax", {masked}, prefix + "attention", {axis(-1)});
    const std::string context = spec_.node("MatMul", {chances, v}, prefix + "context.heads");
    const std::string turned =
        spec_.node("Transpose", {context}, prefix + "context.turned", {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    return spec_.node("Reshape", {turned, joined_shape}, prefix + "context");
  }

  std::string gelu(const std::string& name, const std::string& input) {
    const std::string ratio = spec_.node("Div", {input, spec_.scalar("root_two", std::sqrt(2.0f))}, name + ".ratio");
    const std::string erf = spec_.node("Erf", {ratio}, name + ".erf");
    const std::string shifted = spec_.node("Add", {erf, spec_.scalar("one", 1.0f)}, name + ".shifted");
    const std::string product = spec_.node("Mul", {input, shifted}, name + ".product");
    return spec_.node("Mul", {product, spec_.scalar("half", 0.5f)}, name);
  }

  ModelSpec spec_;
};

}  // namespace

ModelSpec bert_f32() { return Encoder().build(); }

}  // namespace ompipe::cli
