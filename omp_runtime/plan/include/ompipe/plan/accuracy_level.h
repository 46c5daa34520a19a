// At which of the kernels' accuracy levels a node multiplies.
#pragma once

#include "ompipe/model/resolved_model.h"

namespace ompipe::plan {

// 4 for a MatMulNBits that asks for 4, else 0: levels 1 to 3 ask for no more than float32, which level 0 gives. Nodes
// of either level share one prepared object, so its layout doesn't tell. Any thread.
int accuracy_level(const model::Node& node);

}  // namespace ompipe::plan
