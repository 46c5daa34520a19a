#include "hot_slots.h"

namespace ompipe::session {

int HotSlots::take_empty() {
  for (int slot = 0; slot < kSlots; ++slot) {
    uint64_t word = words_[size_t(slot)].load();
    if (state_of(word) != HotState::empty || !exchange(slot, word, HotState::taken)) continue;
    filled_.fetch_add(1);
    return slot;
  }
  return -1;
}

int HotSlots::take_idle(uint32_t session) {
  for (int slot = 0; slot < kSlots; ++slot) {
    uint64_t word = words_[size_t(slot)].load(std::memory_order_relaxed);
    if (state_of(word) == HotState::idle && session_of(word) == session && exchange(slot, word, HotState::taken))
      return slot;
  }
  return -1;
}

int HotSlots::take_oldest_idle(uint32_t but_session) {
  for (;;) {
    int oldest = -1;
    uint64_t oldest_word = 0;
    for (int slot = 0; slot < kSlots; ++slot) {
      const uint64_t word = words_[size_t(slot)].load();
      if (state_of(word) != HotState::idle || session_of(word) == but_session) continue;
      if (oldest >= 0 && ages_[size_t(slot)].load() > ages_[size_t(oldest)].load()) continue;
      oldest = slot;
      oldest_word = word;
    }
    if (oldest < 0 || exchange(oldest, oldest_word, HotState::taken)) return oldest;
  }
}

int HotSlots::claim_oldest() {
  for (;;) {
    int oldest = -1;
    uint64_t oldest_word = 0;
    for (int slot = 0; slot < kSlots; ++slot) {
      const uint64_t word = words_[size_t(slot)].load();
      if (state_of(word) != HotState::claimable) continue;
      if (oldest >= 0 && ages_[size_t(slot)].load() > ages_[size_t(oldest)].load()) continue;
      oldest = slot;
      oldest_word = word;
    }
    if (oldest < 0 || exchange(oldest, oldest_word, HotState::running)) return oldest;
  }
}

bool HotSlots::claimable(const HotTicket& ticket) const {
  const uint64_t word = ticket.word.load(std::memory_order_acquire);
  return word != 0 && words_[size_t(ticket.slot.load(std::memory_order_relaxed))].load() == word;
}

bool HotSlots::leave_claimable(const HotTicket& ticket, HotState to) {
  if (!claimable(ticket)) return false;
  uint64_t word = ticket.word.load(std::memory_order_relaxed);
  return exchange(ticket.slot.load(std::memory_order_relaxed), word, to);
}

void HotSlots::put(int slot, uint32_t session, HotState state) {
  std::atomic<uint64_t>& word = words_[size_t(slot)];
  word.store(next_word(word.load(std::memory_order_relaxed), session, state));
}

void HotSlots::put_idle(int slot, uint32_t session) {
  ages_[size_t(slot)].store(slots_[size_t(slot)].age, std::memory_order_relaxed);
  put(slot, session, HotState::idle);
}

void HotSlots::put_empty(int slot) {
  put(slot, 0, HotState::empty);
  filled_.fetch_sub(1);
}

// The ticket first: once the word says claimable, the slot may be another's.
void HotSlots::publish(int slot, uint32_t session, HotTicket& ticket) {
  ages_[size_t(slot)].store(slots_[size_t(slot)].age, std::memory_order_relaxed);
  const uint64_t word = words_[size_t(slot)].load(std::memory_order_relaxed);
  const uint64_t next = next_word(word, session, HotState::claimable);
  ticket.slot.store(slot, std::memory_order_relaxed);
  ticket.word.store(next, std::memory_order_release);
  words_[size_t(slot)].store(next);
}

CompletionRef HotSlots::completion(int slot) {
  for (Completion& state : pools_[size_t(slot)].states) {
    if (state.referenced()) continue;
    state.renew();
    return CompletionRef(&state);
  }
  return make_completion();
}

bool HotSlots::busy(uint32_t session) const {
  for (const std::atomic<uint64_t>& word : words_) {
    const uint64_t now = word.load();
    const HotState state = state_of(now);
    if (session_of(now) == session && state != HotState::empty && state != HotState::idle) return true;
  }
  return false;
}

bool HotSlots::busy() const {
  for (const std::atomic<uint64_t>& word : words_) {
    const HotState state = state_of(word.load());
    if (state != HotState::empty && state != HotState::idle) return true;
  }
  return false;
}

}  // namespace ompipe::session
