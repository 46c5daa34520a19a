// What every arena will hold while a plan is prepared and run, step by step, predicted without a thread or a read.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ompipe/arenas/budget.h"
#include "ompipe/exec/context.h"
#include "ompipe/plan/plan.h"
#include "ompipe/session/options.h"

namespace ompipe::session {

// From the end of the step before it to its own.
struct AccountingStep {
  plan::ObjectId published = plan::kNone;  // the step is this object's publication,
  plan::SegmentId segment = plan::kNone;   // or this segment's end; both kNone: all of a run is done
  std::vector<plan::ObjectId> evicted;
  std::vector<plan::ObjectId> rows_of;  // tables of which the segment had its rows read instead
  arenas::DomainBytes live_bytes;       // at its end; a segment's end comes before its pins are released
  arenas::DomainBytes peak_bytes;       // of live bytes during it
};

struct Accounting {
  std::vector<AccountingStep> steps;
  // At the end: limits, peaks, what is retained, the frame for the next hot run included; outputs are still held.
  arenas::BudgetUsage usage;
  uint64_t evictions = 0, rematerialised = 0;
};

// The bytes of these runs, one after the other, in a fresh session, as the `sequential` scheduler measures them: the
// policy itself, with the arenas' own rounding, over a scheduler whose reads and tasks are done the moment their turn
// comes. Each run's outputs are let go when the next one begins. Of each context names, dtypes, shapes, the caches'
// lengths and the indices of tables read by rows are looked at. `prepares`: the session is prepared besides, before the
// first run in mode eager, else together with it. What runs hot is predicted as if it were cold. Reads no weight byte
// and touches no memory of the arenas. Errors: those of exec::Frame::bind; usage when a segment needs more objects than
// the token pools hold; cannot_fit, with the numbers.
Result<Accounting> predict_accounting(const std::shared_ptr<const plan::PreparedExecutionPlan>& plan,
                                      std::span<const exec::RuntimeContext> runs, const RuntimeOptions& runtime,
                                      const SessionOptions& session, bool prepares);

// Step | Work | PreparationArena | PreparedArena | ExecutionArena | IOArena | mapped | Residency action, in MiB, with
// lines for peaks and limits. Preparation and mapped are peaks during the step, the others are live at its end.
std::string accounting_table(const plan::PreparedExecutionPlan& plan, const Accounting& accounting);

// {steps: [{work, published, evicted[], rows_of[], live{}, peak{}}], arenas{}, global_peak, evictions, rematerialised},
// in bytes.
std::string accounting_json(const plan::PreparedExecutionPlan& plan, const Accounting& accounting);

}  // namespace ompipe::session
