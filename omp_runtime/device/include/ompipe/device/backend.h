// The seam to an accelerator: its memory, its queue of commands, and the events that tell how they ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ompipe/arenas/error.h"
#include "ompipe/kernels/matmul.h"

namespace ompipe::device {

// A place in a device's memory. No pointer: what runs on the CPU can't be handed one.
enum class Address : uint64_t { none = 0 };
constexpr Address operator+(Address address, uint64_t bytes) { return Address(uint64_t(address) + bytes); }

// Bytes of the host to the device, and back. The host's bytes stay untouched until the batch's event.
struct Upload {
  const std::byte* from = nullptr;
  Address to = Address::none;
  uint64_t bytes = 0;
};
struct Readback {
  Address from = Address::none;
  std::byte* to = nullptr;
  uint64_t bytes = 0;
};
// Packs a whole weight on the device; scales and zero points are none where the layout has none. `layout` outlives the
// batch, as below.
struct Pack {
  const kernels::PackedLayout* layout = nullptr;
  Address source = Address::none, scales = Address::none, zero_points = Address::none;
  Address packed = Address::none;
};
// out[m, N] = a[m, K] times the packed weight; dense rows of float32. `workspace`: workspace_bytes(*layout, m).
struct Product {
  const kernels::PackedLayout* layout = nullptr;
  Address packed = Address::none, a = Address::none, out = Address::none, workspace = Address::none;
  int64_t m = 0;
};
using Command = std::variant<Upload, Readback, Pack, Product>;

// Commands that run one after the other, after all batches submitted before. The first that fails ends the batch.
struct Batch {
  uint64_t id = 0;  // the caller's
  std::vector<Command> commands;
};

// How a batch ended. Times are CLOCK_MONOTONIC nanoseconds, cpu_ns what it cost the host's processors.
struct Event {
  uint64_t id = 0;
  std::optional<Error> error = {};
  uint64_t start_ns = 0, end_ns = 0, cpu_ns = 0;
};

// Who is told. Called on a thread of the backend's: must not block, and not call the backend.
class EventSink {
 public:
  virtual void ended(Event event) noexcept = 0;

 protected:
  ~EventSink() = default;
};

// What a backend is: `id` names this device in this process, for reports; `behaviour` all that decides the bits that it
// makes and keeps, fit to be part of a prepared key. `memory_bytes`: of its memory. `batches`: its queue's bound.
struct Description {
  std::string id, behaviour;
  uint64_t memory_bytes = 0;
  int batches = 1;
};

// An accelerator. Used by one runtime at a time, and outlives it. Thread rule: describe, computes, packs and
// workspace_bytes from any thread; allocate and free likewise; open, submit and close by the runtime, one at a time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const Description& describe() const = 0;

  // Whether it multiplies by a weight of this layout, and whether it packs one itself.
  virtual bool computes(const kernels::PackedLayout& layout) const = 0;
  virtual bool packs(const kernels::PackedLayout& layout) const = 0;
  // Of the device's memory, that one product of m rows needs beside its operands. Never falls as m rises.
  virtual uint64_t workspace_bytes(const kernels::PackedLayout& layout, int64_t m) const = 0;

  // Memory at kernels::kAlignmentBytes, contents unspecified; bytes > 0. Errors: environment, if there is none.
  virtual Result<Address> allocate(uint64_t bytes) = 0;
  virtual void free(Address address, uint64_t bytes) = 0;

  // Every submitted batch is followed by its event. Errors of open: environment.
  virtual Status open(EventSink& sink) = 0;
  // Takes a batch without waiting; false: the queue is full, nothing has happened.
  virtual bool submit(Batch&& batch) = 0;
  virtual void close() = 0;  // after the last event
};

}  // namespace ompipe::device
