// What follows from a plan's segments and ranges once all are there: uses, gangs, lives, what runs in any case.
#pragma once

#include "ompipe/plan/plan.h"

namespace ompipe::plan {

// The last step of build_plan.
void finish_plan(PreparedExecutionPlan& plan);

}  // namespace ompipe::plan
