// From a model's graph to its plan, with the choices of a runtime and a session: for sessions and for `inspect`.
#pragma once

#include <memory>

#include "ompipe/model/reader.h"
#include "ompipe/plan/plan.h"
#include "ompipe/session/options.h"

namespace ompipe::session {

// Resolves with the nodes placed as `session.device` says, if the runtime has a device. Errors: those of the Resolver.
// Any thread.
Result<std::shared_ptr<const model::ResolvedModel>> resolve_model(model::ModelGraph graph,
                                                                  const RuntimeOptions& runtime,
                                                                  const SessionOptions& session);

// What the plan of such a model is built with.
plan::PlanOptions plan_options(const RuntimeOptions& runtime, const SessionOptions& session);

}  // namespace ompipe::session
