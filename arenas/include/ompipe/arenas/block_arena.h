// Preparation, execution and I/O arenas: page-aligned blocks from the system, pooled by size between uses.
//
//   preparation  staging chunks (O_DIRECT reads land in them) and packing scratch, a block each
//   execution    one block an invocation for its planned peak, and blocks for what data-dependent shapes need beyond it
//   io           each output and each staged input a block; a caller may hold it long after its invocation
//
// First touch of fresh memory costs 2.8 us a 4 KiB page (1.45 GB/s) on the measured machine, and 6.7 GB/s in huge
// pages: so blocks are pooled up to a cap and huge pages are asked for.
#pragma once

#include <vector>

#include "ompipe/arenas/allocation.h"
#include "ompipe/arenas/memory_binding.h"

namespace ompipe::arenas {

struct BlockArenaOptions {
  Domain domain = Domain::preparation;
  uint64_t retention_cap_bytes = kUnlimited;  // pooled bytes at most; 0: every block goes back to the system
  MemoryBinding binding = {};                 // where its pages live; default: where they are first touched
};

// Every function may be called from any thread. Must outlive its allocations, and be outlived by its budget.
class BlockArena final : public AllocationOrigin, private Trimmer {
 public:
  BlockArena(Budget& budget, const BlockArenaOptions& options);
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  // What a request of `bytes` counts as: pages up to 64 KiB, above it the next of eight sizes a power of two (at
  // most 12.5% more), so that blocks are found again. Multiples of 1 MiB up to 16 MiB stay as they are. 0 counts as a
  // page.
  static uint64_t rounded_bytes(uint64_t bytes);

  // Takes rounded_bytes(bytes) out of `reservation`, which must have them left. Contents are unspecified: zeros if
  // fresh, old bytes if pooled. Aligned to 4 KiB, from 2 MiB on to 2 MiB. Fails only if the system has no memory or
  // refuses the binding; the bytes are left in the reservation then.
  Result<Allocation> allocate(Reservation& reservation, uint64_t bytes);
  // Reserves and allocates; ErrorKind::cannot_fit with the numbers when refused. `subject`: what it is for.
  Result<Allocation> allocate(uint64_t bytes, Urgency urgency, const std::string& subject);
  // Lowers or raises the cap; what is pooled above it goes back.
  void set_retention_cap(uint64_t bytes);
  // Gives everything pooled back.
  void trim() { trim(kUnlimited); }

 private:
  struct Block {
    std::byte* data;
    uint64_t bytes;
  };

  void give_back(std::byte* data, uint64_t bytes) override;
  void trim(uint64_t bytes) override OMPIPE_EXCLUDES(mutex_);
  std::byte* take_pooled(Reservation& reservation, uint64_t bytes) OMPIPE_EXCLUDES(mutex_);
  Result<std::byte*> map_block(uint64_t bytes);
  void drop_oldest(uint64_t bytes) OMPIPE_REQUIRES(mutex_);

  Budget& budget_;
  const Domain domain_;
  const MemoryBinding binding_;
  Mutex mutex_;
  uint64_t retention_cap_bytes_ OMPIPE_GUARDED_BY(mutex_);
  uint64_t pooled_bytes_ OMPIPE_GUARDED_BY(mutex_) = 0;
  std::vector<Block> pool_ OMPIPE_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace ompipe::arenas
