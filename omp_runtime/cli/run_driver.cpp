#include "run_driver.h"

#include <algorithm>

#include "ompipe/arenas/start_thread.h"
#include "ompipe/cli/heap_count.h"
#include "ompipe/session/observer.h"
#include "run_outputs.h"

namespace ompipe::cli {

using session::ExecutionHandle;
using session::Milestone;

bool prepares_all(const RunChoices& choices, const plan::PreparedExecutionPlan& plan) {
  const session::MemoryLimits& limits = choices.runtime.limits;
  const session::LookAhead& look_ahead = choices.session.look_ahead;
  return limits.global_bytes == session::kUnlimited && limits.prepared_bytes >= plan.packed_bytes &&
         limits.device_bytes >= plan.device_bytes && !look_ahead.segments && !look_ahead.bytes;
}

std::unique_ptr<device::Backend> make_backend(const RunChoices& choices) {
  if (!choices.device) return nullptr;
  return std::make_unique<device::EmulatedBackend>(choices.emulated);
}

RunDriver::RunDriver(const RunCommand& command) : command_(command), progress_(command.output.quiet) {}

Status RunDriver::run() {
  if (Status status = open(); !status) return status;
  if (Status status = prepare(); !status) return status;
  Status status = ok_status();
  for (int64_t number = 0; status && number < command_.runs; ++number) {
    status = repeat(number);
    if (status) status = interrupt_.check();
  }
  status = settle_preparation(status);
  recorder_.on_milestone(Milestone::end, session::now_ns());
  return status;
}

Status RunDriver::open() {
  if (!interrupt_.status()) return interrupt_.status();
  session::RuntimeOptions options = command_.choices.runtime;
  options.observer = &recorder_;
  backend_ = make_backend(command_.choices);
  options.backend = backend_.get();
  Result<std::shared_ptr<session::Runtime>> runtime = session::Runtime::open(options);
  if (!runtime) return runtime.error();
  runtime_ = *std::move(runtime);
  Result<std::unique_ptr<session::RuntimeSession>> session =
      session::RuntimeSession::open(runtime_, command_.model, command_.choices.session);
  if (!session) return session.error();
  session_ = *std::move(session);
  Result<InvocationMaker> maker = InvocationMaker::make(session_->plan().model, command_);
  if (!maker) return maker.error();
  maker_ = *std::move(maker);
  return interrupt_.check();
}

Status RunDriver::prepare() {
  switch (command_.choices.session.mode) {
    case session::Mode::on_demand:
      return ok_status();
    case session::Mode::streaming:
      if (prepares_all(command_.choices, session_->plan())) preparation_ = session_->PrepareAsync();
      return ok_status();
    case session::Mode::eager:
      break;
  }
  progress_.show("preparing");
  preparation_ = session_->PrepareAsync();
  Status status = interrupt_.wait(preparation_);
  if (!status) results_.last = preparation_.diagnostics();
  return status;
}

// A streaming preparation may outlive the runs; it is part of the whole, unless that failed.
Status RunDriver::settle_preparation(const Status& runs) {
  if (!preparation_.valid()) return runs;
  if (!runs) preparation_.Cancel();
  Status status = interrupt_.wait(preparation_);
  if (runs && !status) results_.last = preparation_.diagnostics();
  return runs ? status : runs;
}

Status RunDriver::repeat(int64_t number) {
  results_.outputs.clear();  // their memory may be what this one writes to
  const auto count = size_t(command_.concurrency);
  std::vector<std::unique_ptr<Invocation>> invocations;
  for (size_t i = 0; i < count; ++i) {
    Result<std::unique_ptr<Invocation>> invocation = maker_->invocation();
    if (!invocation) return invocation.error();
    invocations.push_back(*std::move(invocation));
  }
  results_.tokens.resize(results_.tokens.size() + count);
  std::vector<Status> statuses(count, ok_status());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count && statuses[0]; ++i) {
    Result<std::thread> started =
        start_thread("invocations", [&, i] { statuses[i] = drive(*invocations[i], number, int64_t(i)); });
    if (started) {
      threads.push_back(*std::move(started));
    } else {
      statuses[0] = started.error();
    }
  }
  if (statuses[0]) statuses[0] = drive(*invocations[0], number, 0);
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    if (!status) return status;
  }
  results_.outputs = invocations[0]->context.outputs;
  return ok_status();
}

Status RunDriver::drive(Invocation& invocation, int64_t repeat, int64_t number) {
  while (invocation.begin_step()) {
    if (Status status = interrupt_.check(); !status) return status;
    const Result<std::optional<int64_t>> token = step(invocation, repeat, number);
    if (!token) return token.error();
  }
  return ok_status();
}

Result<std::optional<int64_t>> RunDriver::step(Invocation& invocation, int64_t repeat, int64_t number) {
  const uint64_t start_ns = session::now_ns(), allocations = heap_allocations();
  ExecutionHandle handle = session_->RunAsync(invocation.context);
  const Status status = interrupt_.wait(handle);
  const uint64_t end_ns = session::now_ns(), allocated = heap_allocations() - allocations;
  if (!status) {
    MutexLock lock(mutex_);
    results_.last = handle.diagnostics();
    return status.error();
  }
  recorder_.on_milestone(Milestone::first_output, end_ns);
  const Result<std::optional<int64_t>> token = invocation.end_step();
  if (!token) return token;
  trace::RunRecord run;
  run.repeat = repeat;
  run.invocation = number;
  run.hot = handle.diagnostics().hot;
  run.seconds = double(end_ns - start_ns) * 1e-9;
  run.heap_allocations = allocated;
  run.output_digest = output_digest(invocation.context.outputs);
  if (*token) {
    recorder_.on_milestone(Milestone::first_token, session::now_ns());
    run.tokens.push_back(**token);
  }
  record(std::move(run), handle.diagnostics());
  return token;
}

void RunDriver::record(trace::RunRecord run, const session::Diagnostics& diagnostics) {
  MutexLock lock(mutex_);
  run.index = int64_t(results_.records.size());
  if (run.index == 0) {
    results_.first = diagnostics;
    results_.first_io_cpu_s = runtime_->figures().io_cpu_s;
  }
  results_.last = diagnostics;
  std::vector<int64_t>& tokens = results_.tokens[size_t(run.repeat * command_.concurrency + run.invocation)];
  tokens.insert(tokens.end(), run.tokens.begin(), run.tokens.end());
  results_.private_bytes = std::max(results_.private_bytes, trace::process_figures().private_bytes);
  results_.records.push_back(std::move(run));
  progress_.show("run " + std::to_string(results_.records.size()));
}

}  // namespace ompipe::cli
