// The prepared arena of one session: a fixed virtual range for every object of the plan, with memory only while it is
// live.
//
// Objects lie one behind the other, so the arena can't fragment. Two layouts:
//   packed    (no residency limit in sight) at 4 KiB steps, all of it asking for huge pages, so that small objects
//   share them: an
//             object of 0.5 MiB in 4 KiB pages of its own would be filled at 1.45 instead of 6.7 GB/s. What a huge page
//             adds to the live bytes in it counts as retained; trimming, or an eviction inside it, takes the rest of
//             the page apart.
//   separate  (objects come and go) objects of 2 MiB and more start on a huge page and ask for those that they fill;
//   everything
//             else has 4 KiB pages. Nothing is retained.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ompipe/arenas/allocation.h"
#include "ompipe/arenas/memory_binding.h"

namespace ompipe::arenas {

enum class PreparedLayout : uint8_t { packed, separate };

// Any function from any thread. Must outlive its allocations, and be outlived by its budget.
class PreparedArena final : public AllocationOrigin, private Trimmer {
 public:
  // Reserves addresses for objects of these sizes, by index; no memory yet. Fails if the system has no address space,
  // or refuses the binding.
  static Result<std::unique_ptr<PreparedArena>> create(Budget& budget, std::span<const uint64_t> object_bytes,
                                                       PreparedLayout layout, const MemoryBinding& binding = {});
  ~PreparedArena();

  // What an object of `bytes` counts as: whole pages of 4 KiB.
  static uint64_t rounded_bytes(uint64_t bytes);

  // Makes an absent object live out of `reservation`, which must have its rounded bytes of Domain::prepared left. Reads
  // as zeros, at the same address every time. Can't fail. Destroying the handle evicts: it gives the pages back (0.1 ms
  // a MiB and more: on an I/O thread above 1 MiB), and when that returns the bytes are free and the object may be
  // committed again.
  Allocation commit(size_t object, Reservation& reservation);

 private:
  enum class State : uint8_t { absent, live, leaving };
  struct Object {
    uint64_t offset, bytes;  // rounded
    State state;
  };
  // A stretch of kHugePageBytes of the packed layout. idle: nothing live in it, no memory. huge: may be backed as a
  // whole. broken: has memory only where objects are live.
  enum class FrameState : uint8_t { idle, huge, broken };
  struct Frame {
    FrameState state = FrameState::idle;
    bool advised_huge = true;
    uint64_t live_bytes = 0;
  };

  PreparedArena(Budget& budget, PreparedLayout layout) : budget_(budget), layout_(layout) {}
  void lay_out(std::span<const uint64_t> object_bytes);
  Status map(const MemoryBinding& binding);
  void give_back(std::byte* data, uint64_t bytes) override;
  void trim(uint64_t bytes) override;
  void enter_frames(const Object& object) OMPIPE_REQUIRES(mutex_);
  void leave_frames(const Object& object) OMPIPE_REQUIRES(mutex_);
  void break_frame(size_t frame) OMPIPE_REQUIRES(mutex_);
  void advise_frame(size_t frame, bool huge) OMPIPE_REQUIRES(mutex_);
  void discard_dead(size_t frame) OMPIPE_REQUIRES(mutex_);
  uint64_t slack_bytes(size_t frame) const OMPIPE_REQUIRES(mutex_);
  size_t object_at(uint64_t offset) const OMPIPE_REQUIRES(mutex_);
  static uint64_t overlap_bytes(const Object& object, size_t frame);

  Budget& budget_;
  const PreparedLayout layout_;
  std::byte* base_ = nullptr;
  uint64_t region_bytes_ = 0;  // a multiple of kHugePageBytes
  Mutex mutex_;
  std::vector<Object> objects_ OMPIPE_GUARDED_BY(mutex_);  // by offset too; offsets and sizes never change
  std::vector<Frame> frames_ OMPIPE_GUARDED_BY(mutex_);    // packed layout only
};

}  // namespace ompipe::arenas
