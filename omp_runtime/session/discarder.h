// Gives large evicted objects' pages back on a thread of its own: 0.1 ms a MiB, too long for the serial context.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "ompipe/arenas/allocation.h"
#include "policy_state.h"

namespace ompipe::session {

class Discarder {
 public:
  Discarder() = default;
  Status start();  // once, first; environment when the system refuses the thread
  ~Discarder();    // after everything queued

  // Destroys an object's allocation on the thread, then calls `gone` there. Any thread.
  void discard(ObjectRef object, arenas::Allocation allocation, std::function<void()> gone);
  // Takes the allocation back if its turn has not come: `gone` won't be called. Else none. Any thread.
  arenas::Allocation keep(ObjectRef object);

 private:
  struct Item {
    ObjectRef object;
    arenas::Allocation allocation;
    std::function<void()> gone;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace ompipe::session
