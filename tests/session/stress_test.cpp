// Everything at random, from a seed: sessions that come and go, runs, preparations, cancels, evictions, trims, limits
// that change, a device that fails. Counted in operations; what must always hold is checked at every event.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>

#include "invariants.h"
#include "matrix_chain.h"
#include "ompipe/io/faulty_device.h"
#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

const Tokens kPrompts[] = {kPrompt, {5}, {4242, 8000, 77}};

// Many small objects; some above 1 MiB, whose pages go back on the discarder's thread; a decoder with a table that is
// read by rows, of three prompts.
enum class Kind { small_chain, large_chain, decoder };
struct Chain {
  int count;
  int64_t side;
};
constexpr Chain kChains[] = {{13, 130}, {5, 600}};

const std::string& path_of(Kind kind) {
  static const test::TempFolder folder;
  static std::map<Kind, std::string> paths;
  std::string& path = paths[kind];
  if (path.empty() && kind == Kind::decoder) path = model_path();
  if (path.empty()) path = matrix_chain(folder, kChains[size_t(kind)].count, kChains[size_t(kind)].side);
  return path;
}

// One run to be made: what it is given, and where its result is.
class Job {
 public:
  Job(Kind kind, const RuntimeSession& session, uint64_t choice) : kind_(kind) {
    if (kind == Kind::decoder) {
      prompt_ = choice % std::size(kPrompts);
      decoder_ = std::make_unique<Decoder>(session, 16);
      decoder_->feed(kPrompts[prompt_]);
    } else {
      context_.inputs = {vector_input("v0", kChains[size_t(kind)].side)};
    }
  }
  exec::RuntimeContext& context() { return decoder_ ? decoder_->context : context_; }
  bool right() { return result() == expected(kind_, prompt_); }

 private:
  Floats result() {
    if (decoder_) return decoder_->take_logits();
    const exec::Tensor& view = context_.outputs.front().tensor.view;
    Floats values = elements_of(view);
    context_.outputs.clear();
    return values;
  }
  // What `sequential` gives, without limits and faults.
  static const Floats& expected(Kind kind, size_t prompt) {
    static std::map<std::pair<Kind, size_t>, Floats> results;
    const auto [found, fresh] = results.try_emplace({kind, prompt});
    if (fresh) {
      Rig rig({.scheduler = "sequential"});
      RuntimeSession& session = rig.open({}, path_of(kind));
      Job job(kind, session, prompt);
      REQUIRE(session.Run(job.context()).ok());
      found->second = job.result();
    }
    return found->second;
  }

  const Kind kind_;
  size_t prompt_ = 0;
  std::unique_ptr<Decoder> decoder_;
  exec::RuntimeContext context_;
};

struct Tally {
  int operations = 0, sessions = 0, refused_sessions = 0, runs = 0, succeeded = 0, hot = 0, cancelled = 0, failed = 0,
      refused_runs = 0;
  int evictions = 0, pinned = 0, trims = 0, limits = 0, refused_limits = 0;
  int bounded_peaks = 0;  // new ones that a limit bounds
  uint64_t segments = 0, evicted_objects = 0;

  void operator+=(const Tally& other) {
    for (int Tally::* count :
         {&Tally::operations, &Tally::sessions, &Tally::refused_sessions, &Tally::runs, &Tally::succeeded, &Tally::hot,
          &Tally::cancelled, &Tally::failed, &Tally::refused_runs, &Tally::evictions, &Tally::pinned, &Tally::trims,
          &Tally::limits, &Tally::refused_limits, &Tally::bounded_peaks})
      this->*count += other.*count;
    segments += other.segments;
    evicted_objects += other.evicted_objects;
  }
};

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed), device_(disk_, rates(), seed) {
    RuntimeOptions options{.scheduler = below(4) ? "omp-tasks" : "sequential",
                           .threads = int(1 + below(4)),
                           .io_threads = int(1 + below(3)),
                           .limits = any_limits(),
                           .observer = &invariants_,
                           .device = &device_};
    rig_ = std::make_unique<Rig>(options);
    check_limits();  // the first ones
    while (kinds_.empty()) open();
  }

  Tally run(int operations) {
    for (; tally_.operations < operations; ++tally_.operations) {
      step();
      check_limits();
    }
    while (!pending_.empty()) end_first();
    check_limits();
    // Every handle has ended: the rig then finds the ledger clean. Its own look at the peaks is for limits that stay.
    CHECK(rig_->runtime().set_limits({}).ok());
    rig_.reset();
    const std::vector<std::string> broken = invariants_.broken();
    CAPTURE(broken);
    CHECK(broken.empty());
    tally_.segments = invariants_.seen(TaskKind::segment);
    tally_.evicted_objects = invariants_.seen(TaskKind::evict);
    return tally_;
  }

 private:
  struct Pending {
    std::unique_ptr<Job> job;  // null: a preparation
    ExecutionHandle handle;
    bool refuses = false;
  };

  static io::FaultRates rates() {
    return {.short_read = 0.05, .interrupted = 0.05, .io_error = 0.01, .early_end = 0.002, .delay = 0.2};
  }
  uint64_t below(uint64_t end) { return random_() % end; }

  void step() {
    const uint64_t what = below(32);
    const size_t at = below(kinds_.size());
    RuntimeSession& session = rig_->session(at);
    if (what < 12 && pending_.size() < 14) {
      start(session, kinds_[at]);
    } else if (what == 12) {
      pending_.push_back({nullptr, session.PrepareAsync()});
    } else if (what == 13 && !pending_.empty()) {
      pending_[below(pending_.size())].handle.Cancel();
    } else if (what == 14 && kinds_.size() < 6) {
      open();
    } else if (what == 15 && kinds_.size() > 1) {
      kinds_.erase(kinds_.begin() + ptrdiff_t(at));
      rig_->close(at);
    } else if (what < 19) {
      evict(session);
    } else if (what == 19) {
      ++tally_.trims;
      CHECK(rig_->runtime().Trim(below(24) << 20).ok());
    } else if (what < 22) {
      change_limits();
    } else if (!pending_.empty()) {
      end_first();
    }
  }

  void open() {
    SessionOptions options;
    options.mode = below(2) ? Mode::streaming : Mode::on_demand;
    options.fill_to_limit = below(2);
    options.chunk_bytes = (1 + below(2)) << 20;
    options.read = std::array{ReadMode::buffered, ReadMode::direct, ReadMode::mapped}[below(3)];
    options.inheritance = below(4) != 0;
    options.evict_order = below(3) ? EvictOrder::next_use : EvictOrder::lru;
    const Kind kind = std::array{Kind::small_chain, Kind::large_chain, Kind::decoder}[below(3)];
    if (const Status status = rig_->try_open(options, path_of(kind)); !status.ok()) {
      CHECK(status.error().kind == ErrorKind::cannot_fit);
      ++tally_.refused_sessions;
      return;
    }
    kinds_.push_back(kind);
    invariants_.watch(rig_->session(kinds_.size() - 1).plan());
    ++tally_.sessions;
  }

  void start(RuntimeSession& session, Kind kind) {
    auto job = std::make_unique<Job>(kind, session, below(3));
    const bool refuses = below(4) == 0;
    ExecutionHandle handle = session.RunAsync(job->context(), {.refuse_without_slot = refuses});
    pending_.push_back({std::move(job), std::move(handle), refuses});
    ++tally_.runs;
  }

  void evict(RuntimeSession& session) {
    const auto& objects = session.plan().objects;
    const Status status = below(4) ? session.Evict(objects[below(objects.size())].key) : session.EvictAll();
    ++tally_.evictions;
    if (status.ok()) return;
    CHECK(status.error().kind == ErrorKind::busy);
    ++tally_.pinned;
  }

  MemoryLimits any_limits() {
    MemoryLimits limits;
    if (below(2)) limits.prepared_bytes = (5 + below(16)) << 20;
    if (below(2)) limits.preparation_bytes = (5 + below(12)) << 20;
    if (below(3) == 0) limits.io_bytes = (1 + below(3)) << 20;
    if (below(3) == 0) limits.execution_bytes = (2 + below(6)) << 20;
    if (below(3) == 0) limits.global_bytes = (20 + below(20)) << 20;
    if (below(3) == 0) limits.retained_bytes = below(4) << 20;
    return limits;
  }

  void change_limits() {
    const MemoryLimits before = rig_->runtime().limits(), wanted = any_limits();
    const Status status = rig_->runtime().set_limits(wanted);
    ++tally_.limits;
    if (!status.ok()) {
      CHECK(status.error().kind == ErrorKind::cannot_fit);
      ++tally_.refused_limits;
    }
    CHECK(rig_->runtime().limits().prepared_bytes == (status.ok() ? wanted : before).prepared_bytes);
  }

  // Nobody else changes them, and a lowered one was kept to before the call returned. A step changes them once at most,
  // so that what has become a peak in it did so below one of two limits.
  void check_limits() {
    const RuntimeFigures figures = rig_->runtime().figures();
    uint64_t all = 0;
    for (const auto& [domain, arena] : figures.arenas) {
      CAPTURE(domain);
      CHECK(arena.live <= arena.limit);
      if (domain != "mapped") all += arena.live;
      check_peak(peaks_[domain], arena.peak, arena.limit);
    }
    const uint64_t global_limit = rig_->runtime().limits().global_bytes;
    CHECK(all <= global_limit);
    check_peak(peaks_["all domains"], figures.global_peak_bytes, global_limit);
  }

  struct Peak {
    uint64_t bytes = 0, limit = 0;  // when it was last looked at
  };
  void check_peak(Peak& before, uint64_t peak, uint64_t limit) {
    const uint64_t allowed = std::max(before.limit, limit);
    if (peak > before.bytes) {
      CHECK(peak <= allowed);
      tally_.bounded_peaks += allowed != kUnlimited;
    }
    before = {peak, limit};
  }

  void end_first() {
    Pending item = std::move(pending_.front());
    pending_.pop_front();
    const Status status = item.handle.Wait();
    if (status.ok()) {
      ++tally_.succeeded;
      tally_.hot += item.handle.diagnostics().hot;
      if (item.job) CHECK(item.job->right());
      return;
    }
    const Error& error = status.error();
    CAPTURE(error.message());
    if (error.kind == ErrorKind::cancelled) {
      ++tally_.cancelled;
    } else if (error.kind == ErrorKind::busy) {
      ++tally_.refused_runs;
      CHECK(item.refuses);
    } else {
      ++tally_.failed;
      CHECK((error.kind == ErrorKind::cannot_fit || error.phase == "read"));
    }
  }

  std::mt19937_64 random_;
  io::PosixDevice disk_;
  io::FaultyDevice device_;
  Invariants invariants_;
  std::unique_ptr<Rig> rig_;
  std::vector<Kind> kinds_;  // of the rig's sessions
  std::deque<Pending> pending_;
  std::map<std::string, Peak> peaks_;  // by domain
  Tally tally_;
};

}  // namespace

TEST_SUITE_BEGIN("stress");

TEST_CASE("random sessions, runs, preparations, cancels, evictions, trims, limits and faults") {
  const int seeds = long_tests() ? 200 : kSanitized ? 6 : 12, operations = long_tests() ? 400 : kSanitized ? 120 : 250;
  Tally total;
  for (int seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    total += Walk(uint64_t(seed)).run(operations);
  }
  CHECK(total.succeeded > total.runs / 3);
  CHECK(total.pinned < total.evictions);
  CHECK(total.refused_limits < total.limits);
  CHECK(total.evicted_objects > 0);
  CHECK(total.bounded_peaks > seeds);
  MESSAGE(total.operations, " operations: ", total.sessions, " sessions (", total.refused_sessions, " more refused), ",
          total.runs, " runs (", total.hot, " hot), handles: ", total.succeeded, " succeeded, ", total.cancelled,
          " cancelled, ", total.failed, " failed as injected or refused, ", total.refused_runs, " had no slot; ",
          total.evictions, " evictions (", total.pinned, " refused), ", total.trims, " trims, ", total.limits,
          " limits (", total.refused_limits, " refused); ", total.segments, " segments, ", total.evicted_objects,
          " objects evicted");
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
