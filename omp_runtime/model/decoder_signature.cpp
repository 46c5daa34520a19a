#include "decoder_signature.h"

#include <map>
#include <string>
#include <string_view>

namespace ompipe::model {
namespace {

int32_t index_of(const std::vector<Port>& ports, std::string_view name) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return int32_t(i);
  }
  return kNone;
}

// The layer's number in "past_key_values.N.key"; kNone when the name is another.
int32_t layer_of(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size())
    return kNone;
  const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string_view::npos) return kNone;
  return std::stoi(std::string(digits));
}

bool takes_cache(const Port& port, DecoderSignature& decoder) {
  if (!port.has_shape || port.shape.size() != 4 || !port.shape[1].value || !port.shape[3].value) return false;
  if (decoder.cache_dtype == DType::undefined) {
    decoder.cache_dtype = port.dtype;
    decoder.kv_heads = *port.shape[1].value;
    decoder.head_size = *port.shape[3].value;
  }
  return decoder.cache_dtype == port.dtype && decoder.kv_heads == *port.shape[1].value &&
         decoder.head_size == *port.shape[3].value;
}

}  // namespace

std::optional<DecoderSignature> find_decoder_signature(const Resolution& model) {
  DecoderSignature decoder;
  decoder.input_ids = index_of(model.inputs, "input_ids");
  decoder.attention_mask = index_of(model.inputs, "attention_mask");
  decoder.position_ids = index_of(model.inputs, "position_ids");
  decoder.logits = index_of(model.outputs, "logits");
  if (decoder.input_ids == kNone || decoder.attention_mask == kNone || decoder.logits == kNone) return std::nullopt;
  std::map<int32_t, DecoderSignature::Cache> caches;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const Port& port = model.inputs[i];
    const int32_t key = layer_of(port.name, "past_key_values.", ".key");
    const int32_t value = layer_of(port.name, "past_key_values.", ".value");
    const int32_t layer = key != kNone ? key : value;
    if (layer == kNone) {
      const bool known =
          int32_t(i) == decoder.input_ids || int32_t(i) == decoder.attention_mask || int32_t(i) == decoder.position_ids;
      if (!known && model.values[size_t(port.value)].source == ValueSource::graph_input) return std::nullopt;
      continue;
    }
    if (!takes_cache(port, decoder)) return std::nullopt;
    DecoderSignature::Cache& cache = caches[layer];
    (key != kNone ? cache.past_key : cache.past_value) = int32_t(i);
    const std::string present = "present." + std::to_string(layer) + (key != kNone ? ".key" : ".value");
    (key != kNone ? cache.present_key : cache.present_value) = index_of(model.outputs, present);
  }
  for (const auto& [layer, cache] : caches) {
    if (cache.past_key == kNone || cache.past_value == kNone || cache.present_key == kNone ||
        cache.present_value == kNone) {
      return std::nullopt;
    }
    decoder.caches.push_back(cache);
  }
  if (decoder.caches.empty()) return std::nullopt;
  return decoder;
}

}  // namespace ompipe::model
