// Drives a session through a whole `ompipe run`: opens, prepares as the mode says, runs every invocation of every
// repeat.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interrupt.h"
#include "invocation.h"
#include "ompipe/arenas/error.h"
#include "ompipe/arenas/mutex.h"
#include "ompipe/cli/options.h"
#include "ompipe/session/session.h"
#include "ompipe/trace/report.h"
#include "progress.h"

namespace ompipe::cli {

// Whether a streaming run prepares everything from the start: in a session that nothing limits. Else look-ahead decides
// what comes when.
bool prepares_all(const RunChoices& choices, const plan::PreparedExecutionPlan& plan);

// The accelerator that was chosen; null: none.
std::unique_ptr<device::Backend> make_backend(const RunChoices& choices);

// What the invocations of a run gave.
struct RunResults {
  std::vector<trace::RunRecord> records;  // in the order of their end
  std::vector<std::vector<int64_t>>
      tokens;  // of each invocation of each repeat, in order; empty lists unless it is a decoder
  std::vector<exec::NamedTensor> outputs;  // of the last step of the last repeat's first invocation
  session::Diagnostics first, last;        // of the first run that ended; of the one that failed, else the last
  std::optional<double> first_io_cpu_s;    // the I/O threads' CPU time when the first run had ended
  uint64_t private_bytes = 0;              // the largest that was seen after a run
};

// Members stand in the order of their construction; a session's events name objects of its plan, so the recorder is
// read while the driver lives. One thread.
class RunDriver {
 public:
  explicit RunDriver(const RunCommand& command);
  // Errors: those of the session and of the inputs; cancelled after a signal, when everything has drained.
  Status run();

  const trace::Recorder& recorder() const { return recorder_; }
  const session::Runtime* runtime() const { return runtime_.get(); }         // null: not opened
  const session::RuntimeSession* session() const { return session_.get(); }  // null: not opened
  const RunResults& results() const OMPIPE_EXCLUDES(mutex_) { return results_; }
  std::optional<double> cancel_s() { return interrupt_.cancel_s(); }

 private:
  Status open();
  Status prepare();
  Status settle_preparation(const Status& runs);
  Status repeat(int64_t number);
  Status drive(Invocation& invocation, int64_t repeat, int64_t number);
  Result<std::optional<int64_t>> step(Invocation& invocation, int64_t repeat, int64_t number);
  void record(trace::RunRecord record, const session::Diagnostics& diagnostics);

  const RunCommand& command_;
  const Progress progress_;
  Interrupt interrupt_;
  trace::Recorder recorder_;
  std::unique_ptr<device::Backend> backend_;
  std::shared_ptr<session::Runtime> runtime_;
  std::unique_ptr<session::RuntimeSession> session_;
  std::optional<InvocationMaker> maker_;
  session::ExecutionHandle preparation_;
  Mutex mutex_;
  RunResults results_;  // under mutex_ while invocations run
};

}  // namespace ompipe::cli
