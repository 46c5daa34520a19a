#include <cmath>
#include <cstring>
#include <limits>

#include "invocation.h"
#include "ompipe/cli/tensor_file.h"

namespace ompipe::cli {

namespace {

using model::DType;

float half_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const float mantissa = float(bits & 0x3ffu);
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = std::ldexp(mantissa, -24);
  } else if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else {
    magnitude = std::ldexp(1024 + mantissa, int(exponent) - 25);
  }
  return sign ? -magnitude : magnitude;
}

float bfloat_to_float(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <class T, class Convert>
int64_t first_maximum(const T* row, int64_t width, Convert convert) {
  int64_t best = 0;
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < width; ++i) {
    const float value = convert(row[i]);
    if (value > largest) {
      largest = value;
      best = i;
    }
  }
  return best;
}

class DecoderInvocation final : public Invocation {
 public:
  DecoderInvocation(const model::ResolvedModel& model, const std::vector<int64_t>& prompt, int64_t tokens)
      : signature_(*model.decoder()),
        logits_(model.outputs()[size_t(signature_.logits)].name),
        pending_(prompt),
        tokens_left_(tokens) {
    add_input(model, signature_.input_ids, input_ids_);
    add_input(model, signature_.attention_mask, attention_mask_);
    add_input(model, signature_.position_ids, position_ids_);
  }

  // Caches in the layout of RuntimeContext: [1, heads, capacity, head size].
  Status add_caches(const model::ResolvedModel& model, int64_t capacity) {
    for (const model::DecoderSignature::Cache& cache : signature_.caches) {
      for (const auto& [past, present] :
           {std::pair(cache.past_key, cache.present_key), std::pair(cache.past_value, cache.present_value)}) {
        const std::string& name = model.inputs()[size_t(past)].name;
        const Result<exec::HeldTensor> memory =
            make_owned_tensor(signature_.cache_dtype, {1, signature_.kv_heads, capacity, signature_.head_size}, name);
        if (!memory) return memory.error();
        context.caches.push_back({.past = name,
                                  .present = model.outputs()[size_t(present)].name,
                                  .memory = {memory->view.data, memory->view.bytes(), memory->owner},
                                  .heads = signature_.kv_heads,
                                  .capacity = capacity,
                                  .head_size = signature_.head_size});
      }
    }
    return ok_status();
  }

  bool begin_step() override {
    if (tokens_left_ == 0) return false;
    const auto length = int64_t(pending_.size());
    set(input_ids_, length, [&](int64_t i) { return pending_[size_t(i)]; });
    set(attention_mask_, past_ + length, [](int64_t) { return 1; });
    set(position_ids_, length, [&](int64_t i) { return past_ + i; });
    return true;
  }

  Result<std::optional<int64_t>> end_step() override {
    const exec::HeldTensor* logits = context.output(logits_);
    OMPIPE_CHECK(logits != nullptr, "a run without its logits");
    const Result<int64_t> token = greedy_token(logits->view);
    if (!token) return token.error();
    advance(*token);
    return std::optional(*token);
  }

  void pretend_step() override {
    for (exec::KvBinding& cache : context.caches) cache.length += int64_t(pending_.size());
    advance(0);
  }

 private:
  void advance(int64_t token) {
    past_ += int64_t(pending_.size());
    pending_.assign(1, token);
    --tokens_left_;
  }

  void add_input(const model::ResolvedModel& model, int32_t port, int& slot) {
    slot = model::kNone;
    if (port == model::kNone) return;
    slot = int(context.inputs.size());
    context.inputs.push_back({model.inputs()[size_t(port)].name, {}});
  }

  // Int64 elements, [1, length].
  template <class Element>
  void set(int slot, int64_t length, Element element) {
    if (slot == model::kNone) return;
    auto values = std::make_shared<std::vector<int64_t>>(size_t(length));
    for (int64_t i = 0; i < length; ++i) (*values)[size_t(i)] = element(i);
    const int64_t shape[] = {1, length};
    auto* bytes = reinterpret_cast<std::byte*>(values->data());
    context.inputs[size_t(slot)].tensor = {exec::make_tensor(DType::i64, shape, bytes), std::move(values)};
  }

  const model::DecoderSignature signature_;
  const std::string logits_;
  int input_ids_, attention_mask_, position_ids_;
  std::vector<int64_t> pending_;  // ids that the next step takes
  int64_t past_ = 0;              // positions in the caches
  int64_t tokens_left_;
};

}  // namespace

Result<std::unique_ptr<Invocation>> make_decoder_invocation(const model::ResolvedModel& model,
                                                            const std::vector<int64_t>& prompt, int64_t tokens) {
  auto invocation = std::make_unique<DecoderInvocation>(model, prompt, tokens);
  // The last token is never fed back, so the caches need no room for it; one position more costs nothing and reads
  // easier.
  if (Status status = invocation->add_caches(model, int64_t(prompt.size()) + tokens); !status) return status.error();
  return std::unique_ptr<Invocation>(std::move(invocation));
}

Result<int64_t> greedy_token(const exec::Tensor& logits) {
  const int64_t width = logits.rank() > 0 ? logits.dim(-1) : 0;
  const bool readable = logits.dtype == DType::f32 || logits.dtype == DType::f16 || logits.dtype == DType::bf16;
  if (!readable || logits.elements() == 0) {
    return Error{.kind = ErrorKind::bad_model,
                 .phase = "decode",
                 .subject = "logits",
                 .reason = std::string("are ") + model::dtype_name(logits.dtype) + exec::shape_text(logits.shape()) +
                           ", expected floating-point rows"};
  }
  std::vector<std::byte> copy;
  if (!logits.contiguous()) copy = dense_bytes(logits);
  const std::byte* end = (copy.empty() ? logits.data : copy.data()) + logits.bytes();
  const std::byte* row = end - size_t(width) * model::dtype_bytes(logits.dtype);
  if (logits.dtype == DType::f32)
    return first_maximum(reinterpret_cast<const float*>(row), width, [](float v) { return v; });
  const auto* halves = reinterpret_cast<const uint16_t*>(row);
  return first_maximum(halves, width, logits.dtype == DType::f16 ? half_to_float : bfloat_to_float);
}

}  // namespace ompipe::cli
