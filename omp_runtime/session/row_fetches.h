// Which slices of which tables an invocation looks at, from the indices that its caller feeds.
#pragma once

#include <vector>

#include "ompipe/exec/context.h"
#include "policy_state.h"

namespace ompipe::session {

// A fetch for every row access of the plan whose table can be read by rows: its slices' hashes are known, or nothing is
// verified. Indices out of range name no slice: the kernel reports them. Any thread.
std::vector<RowFetch> row_fetches(const plan::PreparedExecutionPlan& plan, Verify verify,
                                  const exec::RuntimeContext& context);

}  // namespace ompipe::session
