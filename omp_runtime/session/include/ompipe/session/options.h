// What a caller chooses for a runtime and for a session; each field is an option of `ompipe run` (contract.md).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ompipe/kernels/isa.h"
#include "ompipe/kernels/tuning.h"
#include "ompipe/plan/device_rule.h"

namespace ompipe::io {
class Device;
}
namespace ompipe::device {
class Backend;
}

namespace ompipe::session {

class Observer;

inline constexpr uint64_t kUnlimited = UINT64_MAX;

enum class Mode : uint8_t { streaming, eager, on_demand };
enum class ReadMode : uint8_t { buffered, mapped, direct };
enum class Verify : uint8_t { once, always, never };
enum class EvictOrder : uint8_t { next_use, lru };

// Byte limits; kUnlimited where none is given.
struct MemoryLimits {
  uint64_t global_bytes = kUnlimited, preparation_bytes = kUnlimited, prepared_bytes = kUnlimited,
           mapped_bytes = kUnlimited, execution_bytes = kUnlimited, io_bytes = kUnlimited,
           device_bytes = kUnlimited;      // of the device's memory; not part of the global limit
  uint64_t io_inflight_bytes = 64u << 20;  // speculative reads
  uint64_t critical_reserve_bytes = 0;     // of the global limit, for critical work only
  // What the arenas of staging, of execution and of outputs may each keep for the next use, beyond what is live.
  uint64_t retained_bytes = kUnlimited;
};

struct RuntimeOptions {
  std::string scheduler = "omp-tasks";
  std::string fallback = {};  // "" : none
  int threads = 0;            // compute threads; 0: the cores that the process may use
  int io_threads = 2;
  std::string placement = "compact";
  MemoryLimits limits = {};
  int load_tokens = 0, publish_tokens = 0;  // 0: the pools' default sizes (schedule/limits.h)
  Observer* observer = nullptr;             // must outlive the runtime
  io::Device* device = nullptr;        // null: a POSIX device of the runtime's own; else it must outlive the runtime
  device::Backend* backend = nullptr;  // an accelerator, which must outlive the runtime; null: none
  std::optional<uint64_t> seed = {};   // sequential only: the order of ready tasks comes from this seed (tests)
};

// `segments` or `bytes`, as --look-ahead gives it; neither: as far as room allows.
struct LookAhead {
  std::optional<int> segments = {};
  std::optional<uint64_t> bytes = {};
};

struct SessionOptions {
  Mode mode = Mode::streaming;
  bool fill_to_limit = false;  // eager only
  uint64_t chunk_bytes = 2u << 20;
  ReadMode read = ReadMode::buffered;
  LookAhead look_ahead = {};
  bool inheritance = true;  // producers of what an invocation waits for become critical
  EvictOrder evict_order = EvictOrder::next_use;
  Verify verify = Verify::once;
  std::string digests_path = {};         // a trusted list of payload digests; "" : none
  std::optional<kernels::Isa> isa = {};  // none: the best that this CPU has
  kernels::Tuning tuning = kernels::tuning_of_this_cpu();
  plan::DeviceRule device = {};  // which nodes run on the runtime's device, if it has one
};

// What a caller chooses for one run.
struct RunOptions {
  // Refused (busy, in the handle) instead of pending when every invocation slot of the runtime is taken: by runs that
  // are live (at most schedule::kMaxSlots) or that were submitted before and wait for one. A run that waits for bytes
  // is pending all the same.
  bool refuse_without_slot = false;
};

}  // namespace ompipe::session
