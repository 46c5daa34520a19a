#include "ompipe/session/planning.h"

#include <optional>

#include "ompipe/model/resolver.h"
#include "ompipe/plan/device_placer.h"
#include "option_parts.h"

namespace ompipe::session {

plan::PlanOptions plan_options(const RuntimeOptions& runtime, const SessionOptions& session) {
  plan::PlanOptions options;
  options.chunk_bytes = session.chunk_bytes;
  options.prepared_bytes = runtime.limits.prepared_bytes;
  options.isa = session.isa.value_or(kernels::best_isa());
  options.tuning = session.tuning;
  if (runtime.backend) {
    options.device =
        plan::DeviceChoice{runtime.backend, session.device.pack, device_limit(runtime.limits, runtime.backend)};
  }
  return options;
}

Result<std::shared_ptr<const model::ResolvedModel>> resolve_model(model::ModelGraph graph,
                                                                  const RuntimeOptions& runtime,
                                                                  const SessionOptions& session) {
  std::optional<plan::DevicePlacer> placer;
  if (runtime.backend) {
    placer.emplace(*runtime.backend, session.device, session.isa.value_or(kernels::best_isa()),
                   device_limit(runtime.limits, runtime.backend));
  }
  model::Resolver resolver(std::move(graph), placer ? &*placer : nullptr);
  if (Status status = resolver.resolve(); !status.ok()) return status.error();
  return std::move(resolver).freeze();
}

}  // namespace ompipe::session
