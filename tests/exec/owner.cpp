// References to counted owners: who is last, what is seen by whoever uses the owner again.
#include "ompipe/exec/owner.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace ompipe::exec;

namespace {

class Probe final : public Counted {
 public:
  int ends = 0;

 private:
  void unreferenced() noexcept override { ++ends; }
};

}  // namespace

TEST_SUITE_BEGIN("owner");

TEST_CASE("copies share, moves take over, the last one tells") {
  Probe probe;
  CHECK_FALSE(probe.referenced());
  {
    Ref<Probe> first(&probe);
    Ref<Probe> second = first, third = std::move(first);
    CHECK_FALSE(first);
    CHECK(second == third);
    second = nullptr;
    CHECK(probe.ends == 0);
    CHECK(probe.referenced());
    third = Ref<Probe>(&probe);  // of the same object
    CHECK(probe.ends == 0);
  }
  CHECK(probe.ends == 1);
  CHECK_FALSE(probe.referenced());
  Ref<Probe> again(&probe);
  again.reset();
  CHECK(probe.ends == 2);
}

TEST_CASE("any shared_ptr is an owner") {
  auto bytes = std::make_shared<std::vector<int>>(3, 7);
  const std::weak_ptr<std::vector<int>> watched = bytes;
  Owner owner = std::move(bytes);
  Owner copy = owner;
  owner = nullptr;
  CHECK_FALSE(watched.expired());
  copy = {};
  CHECK(watched.expired());
  CHECK_FALSE(Owner(std::shared_ptr<int>()));
}

// Plain memory that one thread writes while it holds a reference and another uses again when nobody does.
TEST_CASE("what a holder wrote is seen by who finds the owner unreferenced") {
  Probe probe;
  int written = 0, wrong = 0;
  constexpr int kRounds = 2000;
  std::atomic<int> given{0};
  std::thread holder([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (given.load() < round) std::this_thread::yield();
      ++written;
      probe.release();
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    probe.retain();
    given = round;
    while (probe.referenced()) std::this_thread::yield();
    wrong += written != round;
  }
  holder.join();
  CHECK(wrong == 0);
}

TEST_SUITE_END();
