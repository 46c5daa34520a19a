// The queue into a serial context: nothing lost, each poster's messages in order, its storage reused.
#include "queue.h"

#include <doctest/doctest.h>

#include <thread>

namespace ompipe::schedule {

TEST_SUITE_BEGIN("queue");

TEST_CASE("messages of several posters arrive complete, each poster's in order") {
  constexpr int kPosters = 3, kMessages = 20'000;
  MessageQueue queue;
  std::vector<std::thread> posters;
  for (int p = 0; p < kPosters; ++p) {
    posters.emplace_back([&queue, p] {
      for (int i = 0; i < kMessages; ++i) queue.post({.kind = uint8_t(Message::first_free + p), .id = i});
    });
  }
  std::vector<int32_t> next(kPosters, 0);
  bool in_order = true;
  std::vector<Message> batch;
  for (int received = 0; received < kPosters * kMessages; received += int(batch.size())) {
    queue.take(batch);
    for (const Message& message : batch)
      in_order = in_order && message.id == next[message.kind - Message::first_free]++;
  }
  for (std::thread& poster : posters) poster.join();
  CHECK(in_order);
  CHECK_FALSE(queue.try_take(batch));
  CHECK(batch.empty());
}

TEST_CASE("a batch replaces the one before") {
  MessageQueue queue;
  std::vector<Message> batch;
  queue.post({.id = 1});
  queue.post({.id = 2});
  CHECK(queue.try_take(batch));
  CHECK(batch.size() == 2);
  queue.post({.id = 3});
  queue.take(batch);
  REQUIRE(batch.size() == 1);
  CHECK(batch[0].id == 3);
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
