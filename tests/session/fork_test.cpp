// A child forked from a process with sessions: what it inherits is unusable and says so, and the parent goes on.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <source_location>
#include <thread>

#include "ompipe/io/gated_device.h"
#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

// What a child found wrong: the line of its first failed expectation, 0 if none failed.
class Findings {
 public:
  void expect(bool right, std::source_location where = std::source_location::current()) {
    if (!right && line_ == 0) line_ = int(where.line());
  }
  // An error that names fork.
  void refused(const Status& status, std::source_location where = std::source_location::current()) {
    expect(!status.ok() && status.error().kind == ErrorKind::environment &&
               status.error().message().find("fork") != std::string::npos,
           where);
  }
  int line() const { return line_; }

 private:
  int line_ = 0;
};

template <class T>
Status status_of(const Result<T>& result) {
  return result.ok() ? ok_status() : Status(result.error());
}

// Runs `body` in a forked child, which ends after half a minute at the latest: one that hangs is ended by SIGALRM.
// Returns the line that failed there, 0 for none, a negative number if a signal ended it.
int in_child(const std::function<void(Findings&)>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    Findings findings;
    body(findings);
    _exit(std::min(findings.line(), 255));  // no destructor of the parent's runs here
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// A runtime in full swing: one run is done and its output held, another waits at a closed gate, a preparation too, and
// a thread waits for the run.
struct Busy {
  io::PosixDevice disk;
  io::GatedDevice device{disk};
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<RuntimeSession> session, second;
  std::unique_ptr<Decoder> done, running;
  ExecutionHandle prepared, run;
  std::thread waiter;

  explicit Busy(const std::string& scheduler) {
    Result<std::shared_ptr<Runtime>> opened = Runtime::open({.scheduler = scheduler, .threads = 2, .device = &device});
    REQUIRE(opened.ok());
    runtime = *std::move(opened);
    session = open();
    second = open();
    done = std::make_unique<Decoder>(*session);
    done->feed(kPrompt);
    ExecutionHandle first = session->RunAsync(done->context);
    while (!first.IsReady()) {
      if (device.waiting() > 0) device.open_next();
      std::this_thread::yield();
    }
    REQUIRE(first.Wait().ok());
    const size_t reads = device.started().size();
    prepared = second->PrepareAsync();
    running = std::make_unique<Decoder>(*second);
    running->feed(kPrompt);
    run = second->RunAsync(running->context);
    device.wait_started(reads + 1);
    waiter = std::thread([this] { CHECK(run.Wait().ok()); });
  }
  ~Busy() {
    device.open_all();
    waiter.join();
  }
  std::unique_ptr<RuntimeSession> open() const {
    Result<std::unique_ptr<RuntimeSession>> opened = RuntimeSession::open(runtime, model_path(), {});
    REQUIRE(opened.ok());
    return *std::move(opened);
  }
};

Decoded expected() {
  Rig rig({.scheduler = "sequential"});
  return *decode(rig.open(), 2);
}

}  // namespace

TEST_SUITE_BEGIN("fork");

TEST_CASE("what a child inherits names fork and is forgotten without a wait; the parent's sessions go on") {
  const Decoded right = expected();
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    Busy busy(scheduler);
    CHECK(in_child([&](Findings& child) {
            Decoder decoder(*busy.session);
            decoder.feed(kPrompt);
            const ExecutionHandle run = busy.session->RunAsync(decoder.context);
            child.expect(run.IsReady());
            child.refused(run.Wait());
            child.refused(busy.session->PrepareAsync().Wait());
            child.expect(busy.session->objects().empty());
            child.refused(busy.run.Wait());
            child.refused(busy.prepared.Wait());
            child.expect(busy.run.IsReady() && busy.run.diagnostics().segment_wait_s.empty());
            busy.run.Cancel();
            child.refused(status_of(RuntimeSession::open(busy.runtime, model_path(), {})));
            child.refused(busy.runtime->audit());
            child.refused(busy.runtime->set_limits({}));
            child.refused(status_of(busy.runtime->Trim(0)));
            child.refused(busy.session->Evict(busy.session->plan().objects.front().key));
            child.refused(busy.session->EvictAll());
            child.expect(busy.runtime->figures().threads == 0);
            busy.prepared = {};
            {
              const ExecutionHandle forgotten = std::move(busy.run);
            }
            busy.done.reset();  // with the outputs that it holds
            busy.running.reset();
            busy.session.reset();
            busy.second.reset();
            busy.runtime.reset();
          }) == 0);
    busy.device.open_all();
    CHECK(busy.run.Wait().ok());
    CHECK(busy.prepared.Wait().ok());
    CHECK(busy.done->take_logits() == right.logits[0]);
    CHECK(busy.running->take_logits() == right.logits[0]);
    const Result<Decoded> again = decode(*busy.session, 2);
    REQUIRE(again.ok());
    CHECK(*again == right);
  }
}

// ThreadSanitizer refuses threads in a child of a process that had some.
#if !defined(__has_feature)
#define __has_feature(feature) 0
#endif
#if !__has_feature(thread_sanitizer)
TEST_CASE("a child's own runtime: sequential works, omp-tasks names fork or takes its fallback") {
  const Decoded right = expected();
  Busy busy("omp-tasks");
  const std::string model = model_path();
  CHECK(in_child([&](Findings& child) {
          child.refused(status_of(Runtime::open({.threads = 1})));
          for (const RuntimeOptions& options :
               {RuntimeOptions{.scheduler = "sequential"}, RuntimeOptions{.fallback = "sequential", .threads = 1}}) {
            const Result<std::shared_ptr<Runtime>> runtime = Runtime::open(options);
            child.expect(runtime.ok());
            if (!runtime.ok()) return;
            child.expect((*runtime)->figures().fallback_used == (options.scheduler != "sequential"));
            const Result<std::unique_ptr<RuntimeSession>> session = RuntimeSession::open(*runtime, model, {});
            child.expect(session.ok());
            if (!session.ok()) return;
            const Result<Decoded> decoded = decode(**session, 2);
            child.expect(decoded.ok() && *decoded == right);
          }
        }) == 0);
  busy.device.open_all();
  CHECK(busy.run.Wait().ok());
}
#endif

TEST_SUITE_END();

}  // namespace ompipe::session::testing
