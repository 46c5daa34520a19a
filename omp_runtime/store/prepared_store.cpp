#include "ompipe/store/prepared_store.h"

namespace ompipe::store {

Result<std::unique_ptr<PreparedStore>> PreparedStore::create(std::shared_ptr<const plan::PreparedExecutionPlan> plan,
                                                             arenas::Budget& budget, arenas::PreparedLayout layout,
                                                             const arenas::MemoryBinding& binding) {
  std::vector<uint64_t> sizes;
  for (const plan::PreparedObject& object : plan->objects) sizes.push_back(object.bytes);
  Result<std::unique_ptr<arenas::PreparedArena>> arena = arenas::PreparedArena::create(budget, sizes, layout, binding);
  if (!arena.ok()) return arena.error();
  return std::unique_ptr<PreparedStore>(new PreparedStore(std::move(plan), std::move(*arena)));
}

PreparedStore::PreparedStore(std::shared_ptr<const plan::PreparedExecutionPlan> plan,
                             std::unique_ptr<arenas::PreparedArena> arena)
    : plan_(std::move(plan)), arena_(std::move(arena)) {
  for (const plan::PreparedObject& object : plan_->objects)
    entries_.push_back(std::make_unique<Entry>(SliceHashes(*plan_, object)));
}

void PreparedStore::begin(plan::ObjectId object, arenas::Reservation& reservation) {
  Entry& entry = *entries_[size_t(object)];
  transition(entry.state, Residency::loading);
  ++entry.generation;
  entry.allocation = arena_->commit(size_t(object), reservation);
}

void PreparedStore::first_chunk(plan::ObjectId object) {
  transition(entries_[size_t(object)]->state, Residency::preparing);
}

void PreparedStore::publish(plan::ObjectId object) {
  Entry& entry = *entries_[size_t(object)];
  transition(entry.state, Residency::resident);
  entry.published.store(entry.allocation.data(), std::memory_order_release);
}

arenas::Allocation PreparedStore::evict(plan::ObjectId object) {
  Entry& entry = *entries_[size_t(object)];
  transition(entry.state, Residency::evicting);
  entry.published.store(nullptr, std::memory_order_relaxed);
  return std::move(entry.allocation);
}

arenas::Allocation PreparedStore::give_up(plan::ObjectId object) {
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
