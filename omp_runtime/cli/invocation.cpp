#include "invocation.h"

#include <string>

#include "run_inputs.h"

namespace ompipe::cli {

namespace {

// Any model: one step with the inputs given.
class PlainInvocation final : public Invocation {
 public:
  explicit PlainInvocation(std::vector<exec::NamedTensor> inputs) { context.inputs = std::move(inputs); }
  bool begin_step() override { return !std::exchange(begun_, true); }
  Result<std::optional<int64_t>> end_step() override { return std::optional<int64_t>(); }
  void pretend_step() override {}

 private:
  bool begun_ = false;
};

Error prompt_error(const char* option, std::string reason) {
  return {.kind = ErrorKind::usage, .phase = "input", .subject = option, .reason = std::move(reason)};
}

int64_t vocabulary(const model::ResolvedModel& model) {
  const model::Port& logits = model.outputs()[size_t(model.decoder()->logits)];
  return logits.has_shape && !logits.shape.empty() ? logits.shape.back().value.value_or(INT64_MAX) : INT64_MAX;
}

Result<std::vector<int64_t>> make_prompt(const model::ResolvedModel& model, const RunChoices& choices) {
  if (!choices.prompt.empty() && choices.prompt_length)
    return prompt_error("--prompt", "and --prompt-length exclude each other");
  if (choices.prompt.empty() && !choices.prompt_length)
    return prompt_error("--generate", "needs --prompt or --prompt-length");
  const int64_t ids = vocabulary(model);
  for (const int64_t id : choices.prompt) {
    if (id < 0 || id >= ids)
      return prompt_error("--prompt", std::to_string(id) + " is not below the vocabulary's " + std::to_string(ids));
  }
  std::vector<int64_t> prompt = choices.prompt;
  for (int64_t i = 0; prompt.empty() || i < choices.prompt_length.value_or(0); ++i) prompt.push_back((i + 1) % ids);
  return prompt;
}

}  // namespace

Result<InvocationMaker> InvocationMaker::make(std::shared_ptr<const model::ResolvedModel> model,
                                              const RunCommand& command) {
  InvocationMaker maker;
  const RunChoices& choices = command.choices;
  maker.decoder_ = !choices.prompt.empty() || choices.prompt_length || choices.generate;
  if (!maker.decoder_) {
    Result<std::vector<exec::NamedTensor>> inputs = make_inputs(*model, command);
    if (!inputs) return inputs.error();
    maker.inputs_ = *std::move(inputs);
  } else {
    if (!model->decoder())
      return prompt_error("--prompt", "the model is no decoder (input_ids, past_key_values, logits)");
    if (!command.inputs.empty()) return prompt_error("--input", "and --prompt exclude each other");
    Result<std::vector<int64_t>> prompt = make_prompt(*model, choices);
    if (!prompt) return prompt.error();
    maker.prompt_ = *std::move(prompt);
    maker.tokens_ = choices.generate.value_or(1);
  }
  maker.model_ = std::move(model);
  return maker;
}

Result<std::unique_ptr<Invocation>> InvocationMaker::invocation() const {
  if (decoder_) return make_decoder_invocation(*model_, prompt_, tokens_);
  return std::unique_ptr<Invocation>(std::make_unique<PlainInvocation>(inputs_));
}

}  // namespace ompipe::cli
