#include "ompipe/store/prepared_store.h"

namespace ompipe::store {

Result<std::unique_ptr<PreparedStore>> PreparedStore::create(std::shared_ptr<const plan::PreparedExecutionPlan> plan,
                                                             arenas::Budget& budget, arenas::PreparedLayout layout,
                                                             const arenas::MemoryBinding& binding,
                                                             device::Arena* device) {
  OMPIPE_CHECK(device || plan->device_bytes == 0, "objects on a device without its arena");
  std::vector<uint64_t> sizes;
  for (const plan::PreparedObject& object : plan->objects)
    sizes.push_back(object.recipe == plan::Recipe::on_cpu ? object.bytes : 0);
  Result<std::unique_ptr<arenas::PreparedArena>> arena = arenas::PreparedArena::create(budget, sizes, layout, binding);
  if (!arena.ok()) return arena.error();
  return std::unique_ptr<PreparedStore>(new PreparedStore(std::move(plan), std::move(*arena), device));
}

PreparedStore::PreparedStore(std::shared_ptr<const plan::PreparedExecutionPlan> plan,
                             std::unique_ptr<arenas::PreparedArena> arena, device::Arena* device)
    : plan_(std::move(plan)), arena_(std::move(arena)), device_(device) {
  for (const plan::PreparedObject& object : plan_->objects)
    entries_.push_back(std::make_unique<Entry>(SliceHashes(*plan_, object)));
}

void PreparedStore::begin(plan::ObjectId object, arenas::Reservation& reservation) {
  Entry& entry = *entries_[size_t(object)];
  transition(entry.state, Residency::loading);
  ++entry.generation;
  entry.scale_form.store(ScaleForm::unknown, std::memory_order_relaxed);
  const plan::PreparedObject& spec = plan_->objects[size_t(object)];
  if (spec.recipe == plan::Recipe::on_cpu) {
    entry.allocation = arena_->commit(size_t(object), reservation);
    return;
  }
  Result<device::Memory> memory = device_->allocate(reservation, spec.bytes);
  OMPIPE_CHECK(memory.ok(), "the device has no memory for bytes within the budget");
  entry.device = *std::move(memory);
}

void PreparedStore::first_chunk(plan::ObjectId object) {
  transition(entries_[size_t(object)]->state, Residency::preparing);
}

void PreparedStore::again(plan::ObjectId object) { transition(entries_[size_t(object)]->state, Residency::loading); }

void PreparedStore::publish(plan::ObjectId object) {
  Entry& entry = *entries_[size_t(object)];
  transition(entry.state, Residency::resident);
  entry.published.store(entry.allocation.data(), std::memory_order_release);
}

arenas::Allocation PreparedStore::evict(plan::ObjectId object) {
  Entry& entry = *entries_[size_t(object)];
  transition(entry.state, Residency::evicting);
  entry.published.store(nullptr, std::memory_order_relaxed);
  entry.device.reset();
  return std::move(entry.allocation);
}

arenas::Allocation PreparedStore::give_up(plan::ObjectId object) {
  entries_[size_t(object)]->device.reset();
  return std::move(entries_[size_t(object)]->allocation);
}

void PreparedStore::keep(plan::ObjectId object, arenas::Allocation allocation) {
  Entry& entry = *entries_[size_t(object)];
  transition(entry.state, Residency::resident);
  entry.allocation = std::move(allocation);
  entry.published.store(entry.allocation.data(), std::memory_order_release);
}

void PreparedStore::gone(plan::ObjectId object, Residency to) { transition(entries_[size_t(object)]->state, to); }

}  // namespace ompipe::store
