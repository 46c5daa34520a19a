// The slice hashes of an object's sources, filled by the tasks that pack it, and their comparison with what was
// promised.
#pragma once

#include <vector>

#include "ompipe/io/digest.h"
#include "ompipe/plan/plan.h"

namespace ompipe::store {

// Storage for one object, made when a plan is bound. Different slices may be written by different threads at once;
// verify after all.
class SliceHashes {
 public:
  explicit SliceHashes(const plan::PreparedExecutionPlan& plan, const plan::PreparedObject& object);

  io::Hash128& at(size_t source, uint64_t slice) { return hashes_[source][slice]; }
  uint64_t slices(size_t source) const { return hashes_[source].size(); }

  // Compares each source's digest with the payload's. A payload without one passes: it is unverified, its digest now
  // known. Errors: bad_model, phase "digest", with tensor, file, range, what was expected and found.
  Status verify(const plan::PreparedExecutionPlan& plan, const plan::PreparedObject& object) const;

 private:
  std::vector<std::vector<io::Hash128>> hashes_;  // by source
};

}  // namespace ompipe::store
