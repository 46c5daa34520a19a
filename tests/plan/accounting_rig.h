// The predicted accounting beside a measured one: tiny-int4, what a run of it left behind step by step, and what the
// prediction says of the same run.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "invocation.h"
#include "ompipe/session/accounting.h"
#include "ompipe/session/observer.h"
#include "ompipe/session/session.h"

namespace ompipe::session::accounting {

inline constexpr uint64_t kMiB = 1u << 20;

// tiny-int4, written once a process.
const std::string& tiny_model();

arenas::DomainBytes live_bytes(const arenas::BudgetUsage& usage);

// What each step of a runtime left behind, looked at in its own serial context.
class Meter : public Observer {
 public:
  void on_task(const TaskEvent& event) noexcept override;
  void on_milestone(Milestone, uint64_t) noexcept override {}
  // All of a run is done, and nothing is under way. In the serial context.
  void end_run();

  Runtime* runtime = nullptr;
  std::vector<AccountingStep> steps;  // `peak_bytes`: of what was live at any event of the step
 private:
  void end_step();
  AccountingStep step_;
};

struct Case {
  std::string name;
  MemoryLimits limits = {};
  SessionOptions session = {};
  int64_t prompt_length = 3;
  int io_threads = 2;
  std::string scheduler = "sequential";
  int threads = 1;
  int64_t tokens = 1;
};

RuntimeOptions options_of(const Case& wanted);
// Of a decoder that starts with the case's prompt.
std::unique_ptr<cli::Invocation> invocation_of(const std::shared_ptr<const model::ResolvedModel>& model,
                                               const Case& wanted);

// What the case's tokens did, one after the other.
struct Measured {
  std::vector<AccountingStep> steps;
  RuntimeFigures figures;
  std::vector<exec::RuntimeContext> runs;  // each step's context, as it was submitted
  std::vector<int64_t> tokens;
};

// The same bytes, to the last one.
void check_step(const AccountingStep& predicted, const AccountingStep& measured);

// A runtime with one session of the case. Its ledger has to be clean when it ends.
class Stand {
 public:
  explicit Stand(const Case& wanted);
  ~Stand();
  Measured measure();
  Result<Accounting> predict(const std::vector<exec::RuntimeContext>& runs) const;
  RuntimeSession& session() { return *session_; }
  const plan::PreparedExecutionPlan& plan() const { return session_->plan(); }

 private:
  const Case wanted_;
  Meter meter_;
  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<RuntimeSession> session_;
};

}  // namespace ompipe::session::accounting
