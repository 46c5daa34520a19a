#include "script.h"

#include <chrono>
#include <future>

namespace ompipe::schedule {
namespace {

struct Step {
  std::function<void(Scheduler&)> work;
  std::promise<void> done;
};

}  // namespace

void Script::open(const std::string& scheduler, int threads) {
  Result<std::unique_ptr<Scheduler>> opened = open_scheduler(scheduler, {.threads = threads}, *this);
  OMPIPE_CHECK(opened.ok());
  scheduler_ = std::move(*opened);
}

void Script::step(std::function<void(Scheduler&)> work) {
  Step step{std::move(work), {}};
  scheduler_->post(Message{.kind = Message::first_free, .payload = &step});
  step.done.get_future().wait();
}

void Script::on_message(const Message& message) {
  if (message.kind == Message::first_free) {
    auto* const step = static_cast<Step*>(message.payload);
    step->work(*scheduler_);
    step->done.set_value();
    return;
  }
  std::lock_guard lock(mutex_);
  if (message.kind == Message::prepacked) prepacks_.push_back(message.id);
  if (message.kind == Message::segment_done) segments_.push_back(message.id);
  if (message.kind == Message::room_for_speculation) ++rooms_;
  reported_.notify_all();
}

bool Script::await(const std::function<bool()>& reached) {
  std::unique_lock lock(mutex_);
  return reported_.wait_for(lock, std::chrono::seconds(30), reached);
}

bool Script::await_prepacks(size_t count) {
  return await([&] { return prepacks_.size() >= count; });
}
bool Script::await_segments(size_t count) {
  return await([&] { return segments_.size() >= count; });
}
bool Script::await_room(size_t count) {
  return await([&] { return rooms_ >= count; });
}

std::vector<LoadToken> Script::prepacks() {
  std::lock_guard lock(mutex_);
  return prepacks_;
}
std::vector<SlotToken> Script::segments() {
  std::lock_guard lock(mutex_);
  return segments_;
}
size_t Script::rooms() {
  std::lock_guard lock(mutex_);
  return rooms_;
}

}  // namespace ompipe::schedule
