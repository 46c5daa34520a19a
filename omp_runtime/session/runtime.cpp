#include "ompipe/session/runtime.h"

#include "runtime_core.h"

namespace ompipe::session {

Runtime::Runtime(std::unique_ptr<RuntimeCore> core) : core_(std::move(core)) {}
Runtime::~Runtime() {
  if (core_->home().left()) leave_alone(core_);
}

Result<std::shared_ptr<Runtime>> Runtime::open(const RuntimeOptions& options) {
  Result<std::unique_ptr<RuntimeCore>> core = RuntimeCore::open(options);
  if (!core.ok()) return core.error();
  return std::shared_ptr<Runtime>(new Runtime(std::move(*core)));
}

RuntimeFigures Runtime::figures() const { return core_->home().left() ? RuntimeFigures{} : core_->figures(); }

MemoryLimits Runtime::limits() const { return core_->home().left() ? MemoryLimits{} : core_->limits(); }

Status Runtime::set_limits(const MemoryLimits& limits) {
  if (core_->home().left()) return HomeProcess::error("set limits", "runtime");
  return core_->set_limits(limits);
}

Result<uint64_t> Runtime::Trim(uint64_t bytes) {
  if (core_->home().left()) return HomeProcess::error("trim", "runtime");
  return core_->trim(bytes);
}

Status Runtime::audit() const {
  if (core_->home().left()) return HomeProcess::error("audit", "runtime");
  return core_->audit();
}

}  // namespace ompipe::session
