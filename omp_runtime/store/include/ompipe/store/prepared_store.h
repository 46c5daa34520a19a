// The registry of a session's prepared objects: state, generation, allocation, and the bytes that consumers see.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "ompipe/arenas/prepared_arena.h"
#include "ompipe/device/arena.h"
#include "ompipe/plan/plan.h"
#include "ompipe/store/residency.h"
#include "ompipe/store/scale_form.h"
#include "ompipe/store/slice_hashes.h"

namespace ompipe::store {

// Thread rule: everything in the policy's serial context, but bytes() and narrow(), which compute threads call for
// objects that are resident and pinned, and writable(), hashes() and scale_form(), for chunks of an object that is
// being prepared.
class PreparedStore {
 public:
  // Fixes an address for every object of the plan that is the CPU's; no memory yet. `device`: where the others get
  // theirs; null if there are none, else it outlives the store. Errors: environment, if the system has no address
  // space.
  static Result<std::unique_ptr<PreparedStore>> create(std::shared_ptr<const plan::PreparedExecutionPlan> plan,
                                                       arenas::Budget& budget, arenas::PreparedLayout layout,
                                                       const arenas::MemoryBinding& binding,
                                                       device::Arena* device = nullptr);

  Residency state(plan::ObjectId object) const { return entries_[size_t(object)]->state; }
  uint32_t generation(plan::ObjectId object) const { return entries_[size_t(object)]->generation; }

  // absent or failed to loading: takes the object's bytes out of `reservation` and starts the next generation, of whose
  // scales nothing is known.
  void begin(plan::ObjectId object, arenas::Reservation& reservation);
  // loading to preparing.
  void first_chunk(plan::ObjectId object);
  // preparing to loading: the same generation, by another recipe.
  void again(plan::ObjectId object);
  // preparing to resident: one release store makes bytes and allocation visible together.
  void publish(plan::ObjectId object);
  // Both give up the bytes of an object: destroying the allocation gives its pages back, and gone() follows that. Those
  // on a device are gone at once, and the allocation is empty.
  arenas::Allocation evict(plan::ObjectId object);    // resident to evicting
  arenas::Allocation give_up(plan::ObjectId object);  // loading or preparing, and still so until it is gone
  // evicting to resident again, with the bytes that were given up and have not gone.
  void keep(plan::ObjectId object, arenas::Allocation allocation);
  // evicting, or given up, to absent; given up to failed.
  void gone(plan::ObjectId object, Residency to = Residency::absent);

  const std::byte* bytes(plan::ObjectId object) const {
    return entries_[size_t(object)]->published.load(std::memory_order_acquire);
  }
  // Whether those bytes are in PreparedObject::narrow. Chunks decided it before the serial context learned of their end
  // and published: a compute thread that called bytes() first sees it as it sees the bytes. No acquire of its own.
  bool narrow(plan::ObjectId object) const {
    return entries_[size_t(object)]->scale_form.load(std::memory_order_relaxed) == ScaleForm::narrow;
  }
  // Of an object on the device, from begin on.
  const device::Memory& on_device(plan::ObjectId object) const { return entries_[size_t(object)]->device; }
  std::byte* writable(plan::ObjectId object) { return entries_[size_t(object)]->allocation.data(); }
  SliceHashes& hashes(plan::ObjectId object) { return entries_[size_t(object)]->hashes; }
  SharedScaleForm& scale_form(plan::ObjectId object) { return entries_[size_t(object)]->scale_form; }

 private:
  struct Entry {
    explicit Entry(SliceHashes slots) : hashes(std::move(slots)) {}
    Residency state = Residency::absent;
    uint32_t generation = 0;
    arenas::Allocation allocation;
    device::Memory device;
    std::atomic<const std::byte*> published{nullptr};
    SharedScaleForm scale_form{ScaleForm::unknown};  // of this generation's bytes
    SliceHashes hashes;
  };

  PreparedStore(std::shared_ptr<const plan::PreparedExecutionPlan> plan, std::unique_ptr<arenas::PreparedArena> arena,
                device::Arena* device);

  std::shared_ptr<const plan::PreparedExecutionPlan> plan_;
  std::unique_ptr<arenas::PreparedArena> arena_;  // outlives the allocations below
  device::Arena* const device_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace ompipe::store
