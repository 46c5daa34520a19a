// Whether a session's whole plan is resident, as threads outside the serial context may rely on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace ompipe::session {

// An epoch, odd while every preferred key is resident, and a count of the runs that rely on it. A run pins, then reads
// the epoch; the policy advances the epoch, then reads the pins. All sequentially consistent: one of the two sees the
// other. Whoever unpins may be waited for (HotShared::waiting).
class HotGate {
 public:
  // Any thread. False: it is closed, and nothing is pinned any more.
  bool claim() {
    pins_.fetch_add(1);
    if (is_open()) return true;
    pins_.fetch_sub(1);
    return false;
  }
  // Ends what claim began; `now_ns` becomes the end of the session's last hot run, `predicted_ns` was expected of it.
  void leave(uint64_t now_ns, uint64_t predicted_ns) {
    const uint64_t before_ns = last_end_ns_.exchange(now_ns, std::memory_order_relaxed);
    interval_ns_.store(before_ns == 0 ? predicted_ns : now_ns - std::min(before_ns, now_ns), std::memory_order_relaxed);
    pins_.fetch_sub(1);
  }
  bool is_open() const { return epoch_.load() % 2 == 1; }
  uint64_t epoch() const { return epoch_.load(); }

  // Serial context. Everything is resident.
  void open() {
    if (!is_open()) epoch_.fetch_add(1);
  }
  // Serial context. Nobody claims from here on; true if nobody has.
  bool close() {
    if (is_open()) epoch_.fetch_add(1);
    return pins_.load() == 0;
  }
  // Whether another run is still to be expected: for eight times as long as the last one came after the one before it.
  bool expects_run(uint64_t now_ns) const {
    const uint64_t end_ns = last_end_ns_.load(std::memory_order_relaxed);
    return end_ns != 0 && now_ns < end_ns + kIntervals * interval_ns_.load(std::memory_order_relaxed);
  }
  uint64_t last_end_ns() const { return last_end_ns_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kIntervals = 8;

  alignas(64) std::atomic<uint64_t> epoch_{0};
  std::atomic<int32_t> pins_{0};
  std::atomic<uint64_t> last_end_ns_{0}, interval_ns_{0};
};

}  // namespace ompipe::session
