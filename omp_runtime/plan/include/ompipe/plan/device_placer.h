// The rule that says which nodes run on the device, and the reasons why one that was asked for does not.
#pragma once

#include <cstdint>

#include "ompipe/device/backend.h"
#include "ompipe/kernels/isa.h"
#include "ompipe/model/placement.h"
#include "ompipe/plan/device_rule.h"

namespace ompipe::plan {

// Places by the rule. A node that is asked for runs on the device if its operator is there (MatMul and MatMulNBits
// without a bias), if its weight is constant and of a layout that the backend has, and if the weight's bytes, with what
// it takes to make them, fit the device's memory alone.
class DevicePlacer final : public model::Placer {
 public:
  // `backend` outlives it; `memory_bytes`: of the device, that may be used.
  DevicePlacer(const device::Backend& backend, DeviceRule rule, kernels::Isa isa, uint64_t memory_bytes);
  model::Placement place(const model::Node& node, std::span<const model::Value> values,
                         std::span<const model::Payload> payloads) const override;

 private:
  bool asked(const model::Node& node) const;

  const device::Backend& backend_;
  const DeviceRule rule_;
  const kernels::Isa isa_;
  const uint64_t memory_bytes_;
};

}  // namespace ompipe::plan
