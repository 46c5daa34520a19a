// Where each node runs: decided once, before its kernel is chosen, by whoever knows the devices.
#pragma once

#include <span>
#include <string>

#include "ompipe/model/payload.h"

namespace ompipe::model {

struct Node;
struct Value;

// A node runs on the CPU or on the device. `refused`: it was asked for on the device and runs on the CPU all the same,
// for this reason.
struct Placement {
  bool on_device = false;
  std::string refused = {};
};

// The rule. Pure: the same answer for the same node. Nodes haven't got their kernels yet; of values what the file
// states is known. One thread.
class Placer {
 public:
  virtual ~Placer() = default;
  virtual Placement place(const Node& node, std::span<const Value> values, std::span<const Payload> payloads) const = 0;
};

}  // namespace ompipe::model
