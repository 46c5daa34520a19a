#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ompipe/cli/commands.h"
#include "ompipe/model/resolver.h"
#include "ompipe/plan/plan.h"
#include "ompipe/plan/print.h"
#include "ompipe/session/accounting.h"
#include "run_driver.h"

namespace ompipe::cli {

namespace {

using Json = nlohmann::ordered_json;

const char* state_name(model::ManifestState state) {
  static constexpr const char* kNames[] = {"active", "dormant", "avoided"};
  return kNames[size_t(state)];
}

const char* avoided_name(model::AvoidedReason reason) {
  static constexpr const char* kNames[] = {"", "dead", "superseded", "companion", "branch"};
  return kNames[size_t(reason)];
}

std::string shape_text(const model::Port& port) {
  if (!port.has_shape) return "[...]";
  std::string text = "[";
  for (const model::Dim& dim : port.shape) {
    if (text.size() > 1) text += ",";
    text += dim.value ? std::to_string(*dim.value) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return text + "]";
}

Json ports_json(const std::vector<model::Port>& ports) {
  Json json = Json::array();
  for (const model::Port& port : ports) {
    json.push_back({{"name", port.name}, {"dtype", model::dtype_name(port.dtype)}, {"shape", shape_text(port)}});
  }
  return json;
}

Json summary_json(const model::ResolvedModel& model) {
  const model::ModelMetadata& metadata = model.metadata();
  Json opsets = Json::object();
  for (const auto& [domain, version] : metadata.opsets) opsets[domain.empty() ? "ai.onnx" : domain] = version;
  return {{"path", metadata.path},
          {"bytes", metadata.bytes},
          {"ir_version", metadata.ir_version},
          {"producer", metadata.producer_name},
          {"opsets", std::move(opsets)},
          {"nodes", metadata.nodes},
          {"nodes_live", model.nodes().size()},
          {"initializers", metadata.initializers},
          {"payloads", model.payloads().size()},
          {"source_bytes", model.source_bytes()},
          {"resolve_read_bytes", model.resolve_read_bytes()},
          {"decoder", model.decoder().has_value()},
          {"inputs", ports_json(model.inputs())},
          {"outputs", ports_json(model.outputs())},
          {"notes", model.notes()}};
}

Json manifest_json(const model::ResolvedModel& model) {
  Json json = Json::array();
  for (const model::ManifestEntry& entry : model.manifest()) {
    const model::Payload& payload = model.payload(entry.payload);
    json.push_back({{"name", payload.name},
                    {"state", state_name(entry.state)},
                    {"avoided", avoided_name(entry.avoided)},
                    {"why", entry.why},
                    {"file", model.files()[size_t(payload.file)].path},
                    {"offset", payload.offset},
                    {"length", payload.length},
                    {"dtype", model::dtype_name(payload.dtype)},
                    {"dims", payload.dims},
                    {"digest", payload.digest}});
  }
  return json;
}

std::string summary_text(const model::ResolvedModel& model) {
  const model::ModelMetadata& metadata = model.metadata();
  std::string text =
      fmt::format("{}: {} bytes, IR {}, {} nodes ({} live), {} initializers, {} payloads, {} bytes to read\n",
                  metadata.path, metadata.bytes, metadata.ir_version, metadata.nodes, model.nodes().size(),
                  metadata.initializers, model.payloads().size(), model.source_bytes());
  for (const model::Port& port : model.inputs())
    text += fmt::format("input   {} {}{}\n", port.name, model::dtype_name(port.dtype), shape_text(port));
  for (const model::Port& port : model.outputs())
    text += fmt::format("output  {} {}{}\n", port.name, model::dtype_name(port.dtype), shape_text(port));
  if (model.decoder())
    text += fmt::format("decoder {} layers, {} KV heads of {}\n", model.decoder()->caches.size(),
                        model.decoder()->kv_heads, model.decoder()->head_size);
  for (const std::string& note : model.notes()) text += fmt::format("note    {}\n", note);
  return text;
}

std::string manifest_text(const model::ResolvedModel& model) {
  std::string text = fmt::format("{:<8}{:<11}{:>14}{:>12}  {}\n", "state", "avoided", "offset", "bytes", "tensor");
  for (const model::ManifestEntry& entry : model.manifest()) {
    const model::Payload& payload = model.payload(entry.payload);
    text += fmt::format("{:<8}{:<11}{:>14}{:>12}  {} {}{} ({})\n", state_name(entry.state), avoided_name(entry.avoided),
                        payload.offset, payload.length, payload.name, model::dtype_name(payload.dtype),
                        model::shape_text(payload.dims), entry.why);
  }
  return text;
}

Error exclude(const char* option, const char* other) {
  return {.kind = ErrorKind::usage,
          .phase = "command line",
          .subject = option,
          .reason = std::string("and ") + other + " exclude each other"};
}

Result<std::shared_ptr<const plan::PreparedExecutionPlan>> build(
    const std::shared_ptr<const model::ResolvedModel>& model, const session::SessionOptions& session) {
  plan::PlanOptions options;
  options.chunk_bytes = session.chunk_bytes;
  options.isa = session.isa.value_or(kernels::best_isa());
  return plan::build_plan(model, options);
}

// The bytes of a first run with these choices, step by step. A decoder without a prompt is asked for one token; which
// tokens it gives nobody knows yet, so each is taken for id 0. Nothing, where other inputs have dimensions that nobody
// gave.
Result<std::optional<session::Accounting>> predict(const std::shared_ptr<const plan::PreparedExecutionPlan>& plan,
                                                   const RunChoices& choices) {
  RunCommand run;
  run.choices = choices;
  run.fill.mode = FillMode::zeros;
  const bool shaped = !choices.dims.empty() || !choices.prompt.empty() || choices.prompt_length;
  if (plan->model->decoder() && !shaped) run.choices.prompt_length = 1;
  const Result<InvocationMaker> maker = InvocationMaker::make(plan->model, run);
  if (!maker && !shaped) return std::optional<session::Accounting>();
  if (!maker) return maker.error();
  const Result<std::unique_ptr<Invocation>> invocation = maker->invocation();
  if (!invocation) return invocation.error();
  std::vector<exec::RuntimeContext> runs;
  while ((*invocation)->begin_step()) {
    runs.push_back((*invocation)->context);
    (*invocation)->pretend_step();
  }
  Result<session::Accounting> accounting =
      session::predict_accounting(plan, runs, choices.runtime, choices.session, prepares_all(choices, *plan));
  if (!accounting) return accounting.error();
  return std::optional(*std::move(accounting));
}

Status print_plan(const std::shared_ptr<const plan::PreparedExecutionPlan>& plan, const RunChoices& choices) {
  std::fputs(plan::plan_table(*plan).c_str(), stdout);
  const Result<std::optional<session::Accounting>> accounting = predict(plan, choices);
  if (!accounting) return accounting.error();
  std::fputs(*accounting ? ("\n" + session::accounting_table(*plan, **accounting)).c_str()
                         : "\npredicted memory: give --dim NAME=N for the dimensions of the inputs\n",
             stdout);
  return ok_status();
}

Status print_json(const InspectCommand& command, const model::ResolvedModel& model,
                  const std::shared_ptr<const plan::PreparedExecutionPlan>& plan) {
  Json json = summary_json(model);
  if (command.manifest) json["manifest"] = manifest_json(model);
  if (command.plan) {
    json["plan"] = Json::parse(plan::plan_json(*plan));
    const Result<std::optional<session::Accounting>> accounting = predict(plan, command.choices);
    if (!accounting) return accounting.error();
    if (*accounting) json["accounting"] = Json::parse(session::accounting_json(*plan, **accounting));
  }
  std::fputs((json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), stdout);
  return ok_status();
}

}  // namespace

Status run_inspect(const InspectCommand& command) {
  if (command.dot && command.output.json) return exclude("--dot", "--json");
  if (command.dot && command.plan) return exclude("--dot", "--plan");
  const auto model = model::open_model(command.model, {.digests_path = command.choices.session.digests_path});
  if (!model) return model.error();
  std::shared_ptr<const plan::PreparedExecutionPlan> plan;
  if (command.plan || command.dot) {
    auto built = build(*model, command.choices.session);
    if (!built) return built.error();
    plan = *std::move(built);
  }
  if (command.dot) {
    std::fputs(plan::plan_dot(*plan).c_str(), stdout);
    return ok_status();
  }
  if (command.output.json) return print_json(command, **model, plan);
  if (!command.output.quiet) std::fputs(summary_text(**model).c_str(), stdout);
  if (command.manifest) std::fputs(manifest_text(**model).c_str(), stdout);
  return command.plan ? print_plan(plan, command.choices) : ok_status();
}

}  // namespace ompipe::cli
