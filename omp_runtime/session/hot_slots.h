// The slots in which invocations run hot: each a frame with its memory, and one word by which it is taken.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "completion.h"
#include "policy_state.h"

namespace ompipe::session {

// What happens to a slot, and who may change its word then.
enum class HotState : uint8_t {
  empty,      // no frame; anyone may take it
  idle,       // a frame, its memory reserved, nothing to run; anyone may take it
  taken,      // one thread's: it binds, publishes, trims, or runs unpublished
  claimable,  // published; anyone may claim it, its submitter may withdraw it
  running,    // the claimer's; if that hands the run over, the policy's, which empties it when it has the run
};

// What a slot holds. The holder's: whoever made it taken or running, or the policy, once a run was handed over to it.
struct HotSlot {
  SessionState* session = nullptr;
  std::unique_ptr<InvocationWork> work;
  CompletionRef completion;  // of what is published
  std::optional<Status> outcome;
  uint64_t age = 0;
};

// A fixed array, never freed while the runtime lives, so that a thread that looks for something to claim can't touch
// freed memory. Every transition is one compare-and-swap of the whole word: session, generation, state. Any thread.
class HotSlots {
 public:
  static constexpr int kSlots = 64;

  // -1: there is none.
  int take_empty();
  int take_idle(uint32_t session);
  int take_oldest_idle(uint32_t but_session);  // the least recently used one of other sessions; 0: of any
  int claim_oldest();
  bool claimable(const HotTicket& ticket) const;
  // A published one, if it is still that: to running, or to taken.
  bool claim(const HotTicket& ticket) { return leave_claimable(ticket, HotState::running); }
  bool withdraw(const HotTicket& ticket) { return leave_claimable(ticket, HotState::taken); }

  // By the holder. `session` is what the slot is found by.
  void put_idle(int slot, uint32_t session);
  void put_empty(int slot);
  void publish(int slot, uint32_t session, HotTicket& ticket);  // its age is known

  HotSlot& operator[](int slot) { return slots_[size_t(slot)]; }
  // A handle's state that nobody refers to: one of the slot's own, or a fresh one. By the holder.
  CompletionRef completion(int slot);

  int filled() const { return filled_.load(); }  // slots that are not empty
  bool busy(uint32_t session) const;             // taken, claimable or running, of one session
  bool busy() const;                             // of any

 private:
  // Handles' states of a slot: one that a handle still holds, one that an executor still lets go, one for the next run.
  static constexpr int kCompletions = 4;
  struct Pool {
    std::array<Completion, kCompletions> states{Completion(Completion::Pooled{}), Completion(Completion::Pooled{}),
                                                Completion(Completion::Pooled{}), Completion(Completion::Pooled{})};
  };

  static HotState state_of(uint64_t word) { return HotState(word & 0xff); }
  static uint32_t session_of(uint64_t word) { return uint32_t(word >> 40); }
  static uint64_t next_word(uint64_t word, uint32_t session, HotState state) {
    return uint64_t(session) << 40 | ((word + 0x100) & 0xff'ffff'ff00) | uint64_t(state);
  }
  bool exchange(int slot, uint64_t& word, HotState to) {
    return words_[size_t(slot)].compare_exchange_strong(word, next_word(word, session_of(word), to));
  }
  bool leave_claimable(const HotTicket& ticket, HotState to);
  void put(int slot, uint32_t session, HotState state);

  // Apart from what they guard: who looks for a slot reads nothing else.
  alignas(64) std::array<std::atomic<uint64_t>, kSlots> words_{};
  alignas(64) std::array<std::atomic<uint64_t>, kSlots> ages_{};  // of the last publication or use
  std::atomic<int32_t> filled_{0};
  std::array<HotSlot, kSlots> slots_;
  std::array<Pool, kSlots> pools_;
};

// What the policy and the threads that run hot share.
struct HotShared {
  HotSlots slots;
  // Set by the policy when it waits for what a hot run holds; it then looks again. Whoever has given something back
  // reads it last, and owes a message if it was set.
  std::atomic<bool> waiting{false};
  std::atomic<uint64_t> last_age{0};

  uint64_t next_age() { return last_age.fetch_add(1) + 1; }
  bool take_waiting() { return waiting.load() && waiting.exchange(false); }
};

}  // namespace ompipe::session
