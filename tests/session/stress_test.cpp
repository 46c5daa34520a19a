// Everything at random, from a seed: sessions, runs, preparations, cancels, budgets, a device that fails. Counted in
// operations.
#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <random>

#include "ompipe/io/faulty_device.h"
#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

const Tokens kPrompts[] = {kPrompt, {5}, {4242, 8000, 77}};

// The first step's logits of each prompt.
const Floats& expected(size_t prompt) {
  static std::map<size_t, Floats> results;
  const auto found = results.find(prompt);
  if (found != results.end()) return found->second;
  Rig rig({.scheduler = "sequential"});
  return results[prompt] = decode(rig.open(), 1, kPrompts[prompt])->logits[0];
}

struct Pending {
  size_t prompt;
  std::unique_ptr<Decoder> decoder;  // null: a preparation
  ExecutionHandle handle;
};

struct Tally {
  int operations = 0, succeeded = 0, cancelled = 0, failed = 0;
};

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed), device_(disk_, rates(), seed) {}

  Tally run(int operations) {
    RuntimeOptions options{.scheduler = below(4) ? "omp-tasks" : "sequential",
                           .threads = int(1 + below(4)),
                           .io_threads = int(1 + below(3)),
                           .device = &device_};
    if (below(2)) options.limits.prepared_bytes = (2 + below(6)) << 20;
    if (below(2)) options.limits.preparation_bytes = (4 + below(8)) << 20;
    if (below(3) == 0) options.limits.io_bytes = (1 + below(3)) << 20;
    Rig rig(options);
    std::vector<RuntimeSession*> sessions;
    for (uint64_t i = 0; i < 1 + below(3); ++i) sessions.push_back(&rig.open(any_session()));
    for (tally_.operations = 0; tally_.operations < operations; ++tally_.operations) {
      const uint64_t what = below(10);
      RuntimeSession& session = *sessions[below(sessions.size())];
      if (what < 4 && pending_.size() < 12) {
        start(session);
      } else if (what == 4) {
        pending_.push_back({0, nullptr, session.PrepareAsync()});
      } else if (what == 5 && !pending_.empty()) {
        pending_[below(pending_.size())].handle.Cancel();
      } else if (what == 6) {
        rig.runtime().figures();
      } else if (!pending_.empty()) {
        end_first();
      }
    }
    while (!pending_.empty()) end_first();
    return tally_;
  }

 private:
  static io::FaultRates rates() {
    return {.short_read = 0.05, .interrupted = 0.05, .io_error = 0.01, .early_end = 0.002, .delay = 0.2};
  }
  uint64_t below(uint64_t end) { return random_() % end; }

  SessionOptions any_session() {
    SessionOptions options;
    options.mode = below(2) ? Mode::streaming : Mode::on_demand;
    options.fill_to_limit = below(2);
    options.chunk_bytes = (1 + below(2)) << 20;
    options.read = std::array{ReadMode::buffered, ReadMode::direct, ReadMode::mapped}[below(3)];
    options.inheritance = below(4) != 0;
    options.evict_order = below(3) ? EvictOrder::next_use : EvictOrder::lru;
    return options;
  }

  void start(RuntimeSession& session) {
    const size_t prompt = below(std::size(kPrompts));
    auto decoder = std::make_unique<Decoder>(session, 16);
    decoder->feed(kPrompts[prompt]);
    ExecutionHandle handle = session.RunAsync(decoder->context);
    pending_.push_back({prompt, std::move(decoder), std::move(handle)});
  }

  void end_first() {
    Pending item = std::move(pending_.front());
    pending_.pop_front();
    const Status status = item.handle.Wait();
    if (status.ok()) {
      ++tally_.succeeded;
      if (item.decoder) CHECK(item.decoder->take_logits() == expected(item.prompt));
      return;
    }
    const Error& error = status.error();
    (error.kind == ErrorKind::cancelled ? tally_.cancelled : tally_.failed) += 1;
    CAPTURE(error.message());
    const bool injected = error.phase == "read";
    CHECK((error.kind == ErrorKind::cancelled || error.kind == ErrorKind::cannot_fit || injected));
  }

  std::mt19937_64 random_;
  io::PosixDevice disk_;
  io::FaultyDevice device_;
  std::deque<Pending> pending_;
  Tally tally_;
};

}  // namespace

TEST_SUITE_BEGIN("stress");

TEST_CASE("random sessions, runs, preparations, cancels, budgets and faults") {
  const int seeds = long_tests() ? 200 : 8;
  Tally total;
  for (int seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const Tally tally = Walk(uint64_t(seed)).run(long_tests() ? 200 : 60);
    total.operations += tally.operations;
    total.succeeded += tally.succeeded;
    total.cancelled += tally.cancelled;
    total.failed += tally.failed;
  }
  CHECK(total.succeeded > total.operations / 8);
  MESSAGE(total.operations, " operations: ", total.succeeded, " handles succeeded, ", total.cancelled,
          " were cancelled, ", total.failed, " failed as injected or refused");
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
