// What planning, submitting and cancelling cost, by the number of tasks.
//
//     bench_submission --benchmark_filter=plan          build_plan of a resolved model
//     bench_submission --benchmark_filter=submission    the first RunAsync of a session, nothing resident
//     bench_submission --benchmark_filter=cancel        Cancel right after it, until Wait returns
//     bench_submission --smoke                          the smallest of each, once
//
// The models are chains of small products. tasks: of a whole first run, one for each read, prepack, publication and
// segment. ns_per_task is the time over that number: it stays the same where nothing rescans all tasks. run_ns_per_task
// is the same of the whole run. Every iteration opens a session, untimed. median_us: of the iterations.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bench_main.h"
#include "bench_models.h"
#include "ompipe/model/resolver.h"
#include "ompipe/plan/plan.h"
#include "ompipe/session/observer.h"
#include "ompipe/session/session.h"

namespace {

using namespace ompipe;
using bench::models;
using bench::must;

std::string chain(int products) { return models().path("chain-" + std::to_string(products)); }

uint64_t tasks_of(const plan::PreparedExecutionPlan& plan) {
  uint64_t tasks = plan.segments.size();
  for (const plan::PreparedObject& object : plan.objects) {
    tasks += object.aux_reads.size() + 1;
    for (const plan::Chunk& chunk : object.chunks) tasks += chunk.reads.size() + 1;
  }
  return tasks;
}

// Times of the iterations, for their median.
class Times {
 public:
  explicit Times(benchmark::State& state) : state_(state) {}
  void add(double seconds) {
    state_.SetIterationTime(seconds);
    seconds_.push_back(seconds);
  }
  double median_s() {
    const auto middle = seconds_.begin() + ptrdiff_t(seconds_.size() / 2);
    std::nth_element(seconds_.begin(), middle, seconds_.end());
    return *middle;
  }
  void report(uint64_t tasks) {
    state_.counters["median_us"] = median_s() * 1e6;
    state_.counters["tasks"] = double(tasks);
    state_.counters["ns_per_task"] = median_s() * 1e9 / double(tasks);
  }

 private:
  benchmark::State& state_;
  std::vector<double> seconds_;
};

double seconds_since(uint64_t start_ns) { return double(session::now_ns() - start_ns) * 1e-9; }

void plan_build(benchmark::State& state, int products) {
  const std::shared_ptr<const model::ResolvedModel> model = must(model::open_model(chain(products), {}));
  plan::PlanOptions options;
  options.isa = kernels::best_isa();
  Times times(state);
  uint64_t tasks = 0;
  for (auto _ : state) {
    const uint64_t start_ns = session::now_ns();
    const auto plan = must(plan::build_plan(model, options));
    times.add(seconds_since(start_ns));
    tasks = tasks_of(*plan);
  }
  times.report(tasks);
}

// A session with nothing resident, and a context for it.
struct Cold {
  Cold(const std::shared_ptr<session::Runtime>& runtime, int products)
      : session(must(session::RuntimeSession::open(runtime, chain(products), {}))) {
    exec::Tensor view = exec::make_tensor(model::DType::f32, std::array<int64_t, 2>{1, int64_t(input.size())}, nullptr);
    view.data = reinterpret_cast<std::byte*>(input.data());
    context.inputs.push_back({"x", {view, nullptr}});
  }
  std::array<float, 16> input = {1, 2, 3};
  std::unique_ptr<session::RuntimeSession> session;
  exec::RuntimeContext context;
};

std::shared_ptr<session::Runtime> open_runtime(const std::string& scheduler) {
  session::RuntimeOptions options;
  options.scheduler = scheduler;
  return must(session::Runtime::open(options));
}

void submission(benchmark::State& state, const std::string& scheduler, int products) {
  const std::shared_ptr<session::Runtime> runtime = open_runtime(scheduler);
  Times times(state);
  std::vector<double> runs;
  uint64_t tasks = 0;
  for (auto _ : state) {
    Cold cold(runtime, products);
    const uint64_t start_ns = session::now_ns();
    session::ExecutionHandle handle = cold.session->RunAsync(cold.context);
    times.add(seconds_since(start_ns));
    must(handle.Wait());
    runs.push_back(seconds_since(start_ns));
    tasks = tasks_of(cold.session->plan());
  }
  times.report(tasks);
  std::sort(runs.begin(), runs.end());
  state.counters["run_ns_per_task"] = runs[runs.size() / 2] * 1e9 / double(tasks);
}

void cancel(benchmark::State& state, const std::string& scheduler, int products) {
  const std::shared_ptr<session::Runtime> runtime = open_runtime(scheduler);
  Times times(state);
  uint64_t tasks = 0, cancelled = 0;
  for (auto _ : state) {
    Cold cold(runtime, products);
    session::ExecutionHandle handle = cold.session->RunAsync(cold.context);
    const uint64_t start_ns = session::now_ns();
    handle.Cancel();
    cancelled += !handle.Wait().ok();
    times.add(seconds_since(start_ns));
    tasks = tasks_of(cold.session->plan());
  }
  times.report(tasks);
  state.counters["cancelled"] = double(cancelled) / double(state.iterations());
}

template <class Body>
void add(const std::string& name, int products, int iterations, Body body) {
  const std::string full = name + "/products:" + std::to_string(products);
  auto* const bench =
      benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) { body(state, products); });
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(iterations);
}

// 3077 products make 10,000 tasks, 30770 make 100,000.
void add_all(bool smoke) {
  const std::vector<int> sizes = smoke ? std::vector{100} : std::vector{308, 3077, 30770};
  for (const int products : sizes) add("plan_build", products, smoke ? 1 : 20, plan_build);
  for (const std::string scheduler : {"omp-tasks", "sequential"}) {
    for (const int products : sizes) {
      const int iterations = smoke ? 1 : products > 10'000 ? 5 : 50;
      const auto of = [&](auto body) { return [=](benchmark::State& state, int n) { body(state, scheduler, n); }; };
      add("cold_submission/scheduler:" + scheduler, products, iterations, of(submission));
      add("cancel_to_terminal/scheduler:" + scheduler, products, iterations, of(cancel));
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::bench_main(argc, argv, add_all); }
