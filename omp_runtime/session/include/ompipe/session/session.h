// A session: one model, planned, its prepared objects, and the calls that prepare it and run it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ompipe/exec/context.h"
#include "ompipe/plan/plan.h"
#include "ompipe/session/handle.h"
#include "ompipe/session/options.h"
#include "ompipe/session/runtime.h"

namespace ompipe::session {

// One prepared object, for the report. `layout`: the key of what its bytes are in; before that is known, of what they
// may be in.
struct ObjectFigures {
  std::string key, name, source, layout, state;
  uint32_t generation = 0;
  uint64_t bytes = 0;
};

class SessionCore;  // private

// Thread rule: every function may be called from any thread; a context belongs to one invocation until its handle is
// terminal.
class RuntimeSession {
 public:
  // Opens, resolves and plans the model; reads no weight byte. Errors as io, model and plan give them; cannot_fit, with
  // the numbers, if its largest gang alone exceeds the runtime's limits; environment in a child forked from the
  // runtime's process. From then on runs of every session start only where this one's largest gang fits beside them:
  // one that takes too much for that fails, with the numbers of this model, until the session is closed.
  static Result<std::unique_ptr<RuntimeSession>> open(std::shared_ptr<Runtime> runtime, const std::string& model_path,
                                                      const SessionOptions& options);
  // Waits for its handles' tasks, then gives every byte back.
  ~RuntimeSession();

  // Prepares every object of the plan, in the order of first use. Pending until the missing set fits (mode eager:
  // reserved as a whole, or filled to the limit); cannot_fit, with the numbers, when it never can.
  ExecutionHandle PrepareAsync();
  Status Prepare() { return PrepareAsync().Wait(); }

  // Runs the model on `context`, which must live until the handle is terminal. Lets go of what context.outputs holds.
  // Never blocks. With everything resident it runs hot: as one sequence, by the first thread of the team that is free,
  // or by the caller in Wait. Errors (in the handle): usage for inputs that don't fit the model; cannot_fit, with the
  // numbers, before any read; what reads, digests and kernels report.
  // `options` can have it refused instead of pending (busy).
  ExecutionHandle RunAsync(exec::RuntimeContext& context, const RunOptions& options = {});
  // The same, of a context that the handle keeps alive too; the caller may let go of its own reference at once.
  ExecutionHandle RunAsync(std::shared_ptr<exec::RuntimeContext> context, const RunOptions& options = {});
  // The first and Wait; what runs hot runs on this thread.
  Status Run(exec::RuntimeContext& context, const RunOptions& options = {});

  // Gives one object's bytes back, named by its key, or by its name if no other has it; returns when its pages have
  // gone. A run that needs it loads it again: it goes cold. Of what is absent already nothing happens. Errors: usage,
  // if there is no such object, or several have the name; busy, if a created segment has it pinned, it is being loaded,
  // or a hot run of the session is under way: nothing has changed then. Not from the runtime's own threads (an
  // observer).
  Status Evict(const std::string& object);
  // The same for every object of the session, all of them or none.
  Status EvictAll();

  const plan::PreparedExecutionPlan& plan() const;
  std::vector<ObjectFigures> objects() const;  // none in a forked child
  // File bytes of payloads that only branches and loops' bodies need of which none has been chosen so far.
  uint64_t avoided_branch_bytes() const;  // 0 in a forked child

 private:
  explicit RuntimeSession(std::shared_ptr<SessionCore> core);
  std::shared_ptr<SessionCore> core_;
};

}  // namespace ompipe::session
