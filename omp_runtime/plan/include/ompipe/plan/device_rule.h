// What a caller asks of the runtime's device: which nodes it runs, and where their weights are packed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ompipe::plan {

// How a packed weight comes to the device.
enum class DevicePack : uint8_t {
  on_cpu,     // packed on compute threads, then uploaded
  on_device,  // uploaded as the file holds it, packed there; on_cpu where the backend can't
};

// What a caller asks of the device of a runtime.
struct DeviceRule {
  // Operators by name ("MatMulNBits"), and nodes by name, where * stands for any characters ("/model/layers.0/*"). A
  // node that one of them matches is asked for. Empty: every node of an operator that the device has, with a constant
  // weight.
  std::vector<std::string> nodes = {};
  DevicePack pack = DevicePack::on_cpu;
};

}  // namespace ompipe::plan
