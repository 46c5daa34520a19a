// What a task costs, and how soon an idle thread starts one, by scheduler and shape of graph.
//
//     bench_scheduler --benchmark_filter=task/   ns_per_task: create, release, run and report, with an empty body
//     bench_scheduler --benchmark_filter=wake/   from a gate's opening to the body, in a team that is idle
//     bench_scheduler --smoke                    64 tasks instead of 4096, one repetition each
//
// omp-tasks and sequential run each node as a load (gate and prepack) that the serial context opens when the last of
// its predecessors has reported; libomp is the plain form of the same graph, all tasks created by one thread with
// depend clauses, in a region that ends with the graph. Labels carry the checksum, which every node's value goes into.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench_main.h"
#include "ompipe/schedule/scheduler.h"

namespace {

using namespace ompipe::schedule;

// Node i needs needs[first_need[i]] up to needs[first_need[i + 1]], all of them before it.
struct Graph {
  std::vector<int> first_need = {0}, needs;
  std::vector<std::vector<int>> successors;

  int nodes() const { return int(successors.size()); }
  std::span<const int> needs_of(int node) const {
    const auto i = size_t(node);
    return std::span(needs).subspan(size_t(first_need[i]), size_t(first_need[i + 1] - first_need[i]));
  }
};

Graph make_graph(const std::string& shape, int nodes, int deps) {
  Graph graph;
  graph.successors.resize(size_t(nodes));
  std::mt19937 random(1);
  for (int i = 0; i < nodes; ++i) {
    std::vector<int> needs;
    if (i > 0 && shape == "chain") needs = {i - 1};
    if (i > 0 && shape == "fan") needs = {0};
    if (i > 0 && shape == "tree") needs = {(i - 1) / 2};
    if (shape == "random") {
      while (int(needs.size()) < std::min(deps, i)) {
        const int chosen = int(random() % unsigned(i));
        if (std::find(needs.begin(), needs.end(), chosen) == needs.end()) needs.push_back(chosen);
      }
    }
    for (int need : needs) graph.successors[size_t(need)].push_back(i);
    graph.needs.insert(graph.needs.end(), needs.begin(), needs.end());
    graph.first_need.push_back(int(graph.needs.size()));
  }
  return graph;
}

// A node's value stands on those of its needs, so a node that runs too early changes the checksum.
void compute(const Graph& graph, std::vector<uint64_t>& values, int node) {
  uint64_t value = uint64_t(node) + 1;
  for (int need : graph.needs_of(node)) value = (value ^ values[size_t(need)]) * 0x9e3779b97f4a7c15ull;
  values[size_t(node)] = value;
}

uint64_t checksum(const std::vector<uint64_t>& values) {
  uint64_t sum = 0;
  for (uint64_t value : values) sum = sum * 31 + value;
  return sum;
}

uint64_t expected_checksum(const Graph& graph) {
  std::vector<uint64_t> values(size_t(graph.nodes()));
  for (int node = 0; node < graph.nodes(); ++node) compute(graph, values, node);
  return checksum(values);
}

uint64_t now_ns() {
  return uint64_t(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Runs graphs on a scheduler: a token a running node, at most threads + 1 opened, as the policy does.
class GraphDirector : public Director {
 public:
  explicit GraphDirector(const Graph& graph) : graph_(graph), values_(size_t(graph.nodes())) {
    for (LoadToken token = 0; token < kDefaultLoadTokens; ++token) free_.push_back(token);
  }
  ompipe::Status open(const std::string& name, int threads) {
    auto opened = open_scheduler(name, {.threads = threads}, *this);
    if (!opened.ok()) return opened.error();
    scheduler_ = std::move(*opened);
    return ompipe::ok_status();
  }
  void run() {
    std::fill(values_.begin(), values_.end(), 0);
    done_ = false;
    scheduler_->post(Message{.kind = Message::first_free});
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_; });
  }
  uint64_t sum() const { return checksum(values_); }
  // From each node's release to its body, of all runs.
  std::vector<uint64_t> latencies_ns() const { return latencies_; }

  void prepack(LoadToken token, Worker&) noexcept override {
    Running& running = running_[size_t(token)];
    running.started_ns = now_ns();
    compute(graph_, values_, running.node);
  }
  void segment(SlotToken, Worker&) noexcept override {}
  void on_message(const Message& message) override {
    if (message.kind == Message::first_free) start();
    if (message.kind == Message::prepacked) reported(message.id);
  }
  void pump() override {
    while (!ready_.empty() && !free_.empty() && open_ <= scheduler_->threads()) {
      const LoadToken token = free_.back();
      free_.pop_back();
      Running& running = running_[size_t(token)];
      running.node = ready_.back();
      ready_.pop_back();
      ++open_;
      scheduler_->create_load(token);
      running.opened_ns = now_ns();
      scheduler_->open_load(token, TaskClass::critical);
    }
  }
  bool read_one() override { return false; }
  void thread_started(ThreadRole, int) override {}

 private:
  struct Running {
    int node = -1;
    uint64_t opened_ns = 0, started_ns = 0;
  };

  void start() {
    unfinished_ = graph_.nodes();
    waits_.resize(size_t(graph_.nodes()));
    for (int node = 0; node < graph_.nodes(); ++node) {
      waits_[size_t(node)] = int(graph_.needs_of(node).size());
      if (waits_[size_t(node)] == 0) ready_.push_back(node);
    }
  }
  void reported(LoadToken token) {
    const Running& running = running_[size_t(token)];
    if (latencies_.size() < kMostLatencies) latencies_.push_back(running.started_ns - running.opened_ns);
    --open_;
    free_.push_back(token);
    for (int next : graph_.successors[size_t(running.node)]) {
      if (--waits_[size_t(next)] == 0) ready_.push_back(next);
    }
    if (--unfinished_ > 0) return;
    std::lock_guard lock(mutex_);
    done_ = true;
    finished_.notify_one();
  }

  static constexpr size_t kMostLatencies = 1 << 20;
  const Graph& graph_;
  std::vector<uint64_t> values_;
  std::array<Running, kDefaultLoadTokens> running_;
  std::vector<int> waits_, ready_;
  std::vector<LoadToken> free_;
  std::vector<uint64_t> latencies_;
  int open_ = 0, unfinished_ = 0;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::unique_ptr<Scheduler> scheduler_;  // last: its threads use everything above
};

void run_libomp(const Graph& graph, std::vector<uint64_t>& values, int threads) {
  [[maybe_unused]] const int* const needs = graph.needs.data();
  [[maybe_unused]] uint64_t* const value = values.data();
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int node = 0; node < graph.nodes(); ++node) {
    [[maybe_unused]] const int first = graph.first_need[size_t(node)];
    [[maybe_unused]] const int count = graph.first_need[size_t(node) + 1] - first;
#pragma omp task firstprivate(node) shared(graph, values) \
    depend(iterator(int i = 0 : count), in : value[needs[first + i]]) depend(out : value[node])
    compute(graph, values, node);
  }
}

void report(benchmark::State& state, const Graph& graph, uint64_t sum) {
  if (sum != expected_checksum(graph)) return state.SkipWithError("wrong checksum: a node ran before one it needs");
  state.SetLabel("checksum:" + std::to_string(sum));
  state.counters["ns_per_task"] = benchmark::Counter(
      1e-9 * graph.nodes(), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void task(benchmark::State& state, const std::string& impl, const std::string& shape, int nodes, int deps,
          int threads) {
  const Graph graph = make_graph(shape, nodes, deps);
  if (impl == "libomp") {
    std::vector<uint64_t> values(size_t(graph.nodes()));
    for (auto _ : state) run_libomp(graph, values, threads);
    return report(state, graph, checksum(values));
  }
  GraphDirector director(graph);
  if (const ompipe::Status opened = director.open(impl, threads); !opened.ok()) {
    return state.SkipWithError(opened.error().message().c_str());
  }
  for (auto _ : state) director.run();
  report(state, graph, director.sum());
}

// A chain leaves the team nothing to do between two tasks, so each finds it asleep, or about to be.
void wake(benchmark::State& state, const std::string& impl, int nodes, int threads) {
  const Graph graph = make_graph("chain", nodes, 1);
  GraphDirector director(graph);
  if (const ompipe::Status opened = director.open(impl, threads); !opened.ok()) {
    return state.SkipWithError(opened.error().message().c_str());
  }
  for (auto _ : state) director.run();
  std::vector<uint64_t> latencies = director.latencies_ns();
  std::sort(latencies.begin(), latencies.end());
  report(state, graph, director.sum());
  state.counters["p50_ns"] = double(latencies[latencies.size() / 2]);
  state.counters["p99_ns"] = double(latencies[latencies.size() * 99 / 100]);
}

template <class Body>
void add(const std::string& name, bool smoke, Body body) {
  auto* const bench = benchmark::RegisterBenchmark(name.c_str(), body);
  bench->UseRealTime()->Unit(benchmark::kMillisecond);
  if (smoke) bench->Iterations(1);
}

void add_all(bool smoke) {
  const int nodes = smoke ? 64 : 4096;
  for (const std::string impl : {"omp-tasks", "sequential", "libomp"}) {
    const int threads = impl == "sequential" ? 1 : 2;
    for (const std::string shape : {"chain", "fan", "tree", "random"}) {
      for (const int deps : {1, 2, 4}) {
        if (deps > 1 && shape != "random") continue;
        add("task/impl:" + impl + "/shape:" + shape + "/deps:" + std::to_string(deps) +
                "/threads:" + std::to_string(threads),
            smoke, [=](benchmark::State& state) { task(state, impl, shape, nodes, deps, threads); });
      }
    }
  }
  for (const int team : {1, 2, 4}) {
    add("wake/impl:omp-tasks/threads:" + std::to_string(team), smoke,
        [=](benchmark::State& state) { wake(state, "omp-tasks", nodes, team); });
  }
}

}  // namespace

int main(int argc, char** argv) { return ompipe::bench::bench_main(argc, argv, add_all); }
