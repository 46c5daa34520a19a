#include "accounting_rig.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ompipe/cli/generate.h"
#include "runtime_core.h"

namespace ompipe::session::accounting {

using arenas::Domain;
using arenas::DomainBytes;
namespace fs = std::filesystem;

const std::string& tiny_model() {
  struct Folder {
    Folder() {
      std::string name = (fs::temp_directory_path() / "ompipe_accounting_XXXXXX").string();
      REQUIRE(mkdtemp(name.data()) != nullptr);
      path = name;
      REQUIRE(cli::generate_model({.preset = "tiny-int4", .directory = path}).ok());
      model = path + "/model.onnx";
    }
    ~Folder() { fs::remove_all(path); }
    std::string path, model;
  };
  static const Folder folder;
  return folder.model;
}

DomainBytes live_bytes(const arenas::BudgetUsage& usage) {
  DomainBytes bytes;
  for (Domain domain : arenas::kDomains) bytes[domain] = usage[domain].live_bytes;
  return bytes;
}

void Meter::on_task(const TaskEvent& event) noexcept {
  step_.live_bytes = live_bytes(runtime->core().budget().usage());
  for (Domain domain : arenas::kDomains)
    step_.peak_bytes[domain] = std::max(step_.peak_bytes[domain], step_.live_bytes[domain]);
  if (event.kind == TaskKind::evict) step_.evicted.push_back(event.object);
  if (event.kind != TaskKind::publish && event.kind != TaskKind::segment) return;
  step_.published = event.object;
  step_.segment = event.segment;
  end_step();
}

void Meter::end_run() {
  step_.live_bytes = live_bytes(runtime->core().budget().usage());
  end_step();
}

void Meter::end_step() { steps.push_back(std::exchange(step_, {})); }

RuntimeOptions options_of(const Case& wanted) {
  RuntimeOptions options;
  options.scheduler = wanted.scheduler;
  options.threads = wanted.threads;
  options.io_threads = wanted.io_threads;
  options.limits = wanted.limits;
  return options;
}

std::unique_ptr<cli::Invocation> invocation_of(const std::shared_ptr<const model::ResolvedModel>& model,
                                               const Case& wanted) {
  cli::RunCommand run;
  run.choices.prompt_length = wanted.prompt_length;
  run.choices.generate = wanted.tokens;
  auto maker = cli::InvocationMaker::make(model, run);
  REQUIRE(maker.ok());
  auto invocation = maker->invocation();
  REQUIRE(invocation.ok());
  return std::move(*invocation);
}

void check_step(const AccountingStep& predicted, const AccountingStep& measured) {
  CHECK(predicted.published == measured.published);
  CHECK(predicted.segment == measured.segment);
  CHECK(predicted.evicted == measured.evicted);
  CHECK(predicted.live_bytes == measured.live_bytes);
  for (Domain domain : arenas::kDomains) {
    CAPTURE(arenas::domain_name(domain));
    CHECK(predicted.peak_bytes[domain] >= measured.peak_bytes[domain]);  // which is looked at now and then only
  }
}

Stand::Stand(const Case& wanted) : wanted_(wanted) {
  RuntimeOptions options = options_of(wanted);
  options.observer = &meter_;
  auto runtime = Runtime::open(options);
  REQUIRE_MESSAGE(runtime.ok(), (runtime.ok() ? "" : runtime.error().message()));
  runtime_ = *std::move(runtime);
  meter_.runtime = runtime_.get();
  auto session = RuntimeSession::open(runtime_, tiny_model(), wanted.session);
  REQUIRE_MESSAGE(session.ok(), (session.ok() ? "" : session.error().message()));
  session_ = *std::move(session);
}

Stand::~Stand() {
  session_.reset();
  if (runtime_) CHECK(runtime_->audit().ok());
}

Measured Stand::measure() {
  Measured measured;
  if (wanted_.session.mode == Mode::eager) REQUIRE(session_->Prepare().ok());
  const auto invocation = invocation_of(plan().model, wanted_);
  while (invocation->begin_step()) {
    measured.runs.push_back(invocation->context);
    measured.runs.back().outputs.clear();
    const Status ran = session_->Run(invocation->context);
    REQUIRE_MESSAGE(ran.ok(), (ran.ok() ? "" : ran.error().message()));
    runtime_->core().call([&] {
      CHECK(runtime_->core().policy().audit().empty());
      meter_.end_run();
    });
    const auto token = invocation->end_step();
    REQUIRE(token.ok());
    measured.tokens.push_back(**token);
  }
  measured.figures = runtime_->figures();
  measured.steps = meter_.steps;
  return measured;
}

Result<Accounting> Stand::predict(const std::vector<exec::RuntimeContext>& runs) const {
  // The plan is the session's own, which outlives the prediction.
  const std::shared_ptr<const plan::PreparedExecutionPlan> shared(std::shared_ptr<void>(), &plan());
  return predict_accounting(shared, runs, options_of(wanted_), wanted_.session, wanted_.session.mode == Mode::eager);
}

}  // namespace ompipe::session::accounting
