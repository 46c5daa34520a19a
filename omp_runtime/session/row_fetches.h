// Which slices of which tables an invocation looks at, from the indices that its caller feeds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ompipe/exec/context.h"
#include "policy_state.h"

namespace ompipe::session {

// A row access of the plan whose table can be read by rows: what is the same for every invocation.
struct RowTable {
  plan::SegmentId segment = -1;
  plan::ObjectId object = -1;
  std::string indices;  // the graph input that names the rows
  int64_t rows = 0;
  struct Source {
    uint64_t row_bytes = 0;
    std::vector<io::Hash128> hashes;  // of every slice; empty if nothing is verified
  };
  std::vector<Source> sources;  // the object's
};

// Those whose slices' hashes are known, or all if nothing is verified, in the order of segments. Any thread.
std::vector<RowTable> row_tables(const plan::PreparedExecutionPlan& plan, Verify verify);

// A fetch for every table of which the caller feeds indices in range; an index out of range names no slice: the kernel
// reports it. The fetches look into `tables`. Any thread.
std::vector<RowFetch> row_fetches(std::span<const RowTable> tables, const exec::RuntimeContext& context);

}  // namespace ompipe::session
