// What a session adds to a run whose weights are all resident, against a plain loop over the same kernels.
//
//     bench_session --benchmark_filter=model:tiny-int4   one token of a decoder, the same again and again
//     bench_session --benchmark_filter=model:one-node    next to no work: what is left is the session's own
//     bench_session --smoke                              three runs of each
//
// impl:session is RuntimeSession::Run, impl:async is RunAsync and Wait, impl:loop is the loop: Frame::run_segment over
// objects that were packed before, on the same scheduler's threads, inside one body of the caller's, whose helpers
// never leave. gap_us: the caller idles between two runs, so that helpers go to sleep; only the runs are timed. Labels
// carry the outputs' checksum. least_us: the fastest run, which other load of the machine disturbs least.
// heap_allocations: a run, of the whole process.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench_main.h"
#include "bench_memory.h"
#include "bench_models.h"
#include "ompipe/arenas/placement.h"
#include "ompipe/cli/heap_count.h"
#include "ompipe/exec/frame.h"
#include "ompipe/model/reader.h"
#include "ompipe/model/resolver.h"
#include "ompipe/plan/plan.h"
#include "ompipe/schedule/scheduler.h"
#include "ompipe/session/observer.h"
#include "ompipe/session/session.h"
#include "ompipe/store/prepare_chunk.h"

namespace {

using namespace ompipe;
using bench::models;
using bench::must;
using Plan = plan::PreparedExecutionPlan;

constexpr int64_t kPast = 32;  // positions in the caches before each run

// A context that is run again and again: a decoder's next token, or one number.
class Input {
 public:
  explicit Input(const model::ResolvedModel& model) {
    if (!model.decoder()) {
      add("x", model::DType::f32, {1});
      return;
    }
    const model::DecoderSignature& decoder = *model.decoder();
    const auto name = [&](int32_t port) { return model.inputs()[size_t(port)].name; };
    add(name(decoder.input_ids), model::DType::i64, {1, 1})[0] = 17;
    if (decoder.attention_mask != model::kNone) {
      int64_t* const mask = add(name(decoder.attention_mask), model::DType::i64, {1, kPast + 1});
      std::fill_n(mask, kPast + 1, 1);
    }
    if (decoder.position_ids != model::kNone) add(name(decoder.position_ids), model::DType::i64, {1, 1})[0] = kPast;
    const auto bind = [&](int32_t past, int32_t present) {
      const uint64_t bytes = uint64_t(decoder.kv_heads * kCapacity * decoder.head_size) * sizeof(float);
      std::byte* const memory = allocate(bytes);
      for (uint64_t i = 0; i < bytes / sizeof(float); ++i) reinterpret_cast<float*>(memory)[i] = 0.01f * float(i % 13);
      context.caches.push_back({.past = name(past),
                                .present = model.outputs()[size_t(present)].name,
                                .memory = {memory, bytes, nullptr},
                                .heads = decoder.kv_heads,
                                .capacity = kCapacity,
                                .head_size = decoder.head_size});
    };
    for (const auto& cache : decoder.caches) {
      bind(cache.past_key, cache.present_key);
      bind(cache.past_value, cache.present_value);
    }
  }
  void rewind() {
    for (exec::KvBinding& cache : context.caches) cache.length = kPast;
  }
  // Of the outputs' bytes.
  uint64_t checksum() const {
    uint64_t sum = 0;
    for (const exec::NamedTensor& output : context.outputs) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(output.tensor.view.data);
      for (uint64_t i = 0; i < output.tensor.view.bytes(); ++i) sum = sum * 31 + bytes[i];
    }
    return sum;
  }

  exec::RuntimeContext context;

 private:
  static constexpr int64_t kCapacity = 2 * kPast;

  std::byte* allocate(uint64_t bytes) {
    memory_.push_back(std::make_unique<bench::BenchMemory>(bytes));
    return memory_.back()->data();
  }
  int64_t* add(const std::string& name, model::DType dtype, const std::vector<int64_t>& dims) {
    exec::Tensor view = exec::make_tensor(dtype, dims, nullptr);
    view.data = allocate(view.bytes());
    context.inputs.push_back({name, {view, nullptr}});
    return reinterpret_cast<int64_t*>(view.data);
  }

  std::vector<std::unique_ptr<bench::BenchMemory>> memory_;
};

// The prepared objects of a plan, without a session.
class Objects : public exec::ObjectTable {
 public:
  explicit Objects(const Plan& plan) {
    for (const plan::PreparedObject& object : plan.objects) {
      objects_.push_back(std::make_unique<bench::BenchMemory>(object.bytes));
      bench::BenchMemory aux(object.aux_staging_bytes + 1), staging(object.chunk_staging_bytes + 1);
      std::byte* const prepared = objects_.back()->data();
      store::SharedScaleForm scale_form{store::ScaleForm::unknown};
      read(plan, object.aux_reads, aux.data());
      for (size_t i = 0; i < object.chunks.size(); ++i) {
        const bool straight = object.chunk_staging_bytes == 0;
        read(plan, object.chunks[i].reads, straight ? prepared + object.chunks[i].begin : staging.data());
        must(store::prepare_chunk(
            {&plan, &object, i, straight ? nullptr : staging.data(), aux.data(), prepared, nullptr, &scale_form}));
      }
      narrow_.push_back(scale_form == store::ScaleForm::narrow);
    }
  }
  const std::byte* bytes(plan::ObjectId object) const override { return objects_[size_t(object)]->data(); }
  bool narrow(plan::ObjectId object) const override { return narrow_[size_t(object)]; }

 private:
  static void read(const Plan& plan, const std::vector<plan::Read>& reads, std::byte* to) {
    for (const plan::Read& part : reads) {
      const int file = plan.model->files()[size_t(part.file)].handle->descriptor();
      for (uint64_t done = 0; done < part.length;) {
        const ssize_t got = pread(file, to + part.staging_offset + done, part.length - done, off_t(part.offset + done));
        if (got <= 0) must(Error{ErrorKind::environment, "bench", "model.data", "can't be read"});
        done += uint64_t(got);
      }
    }
  }
  std::vector<std::unique_ptr<bench::BenchMemory>> objects_;
  std::vector<bool> narrow_;
};

// The scheduler that a session would have, its threads bound as a session's are, and nothing to do.
class Team : public schedule::Director {
 public:
  explicit Team(int threads)
      : topology_(must(arenas::Topology::native())),
        placement_(must(arenas::place_threads(topology_, must(arenas::PlacementSpec::parse("compact")), threads, 0))),
        scheduler_(must(schedule::open_scheduler("omp-tasks", {.threads = threads}, *this))) {}
  schedule::Scheduler& scheduler() { return *scheduler_; }

  void prepack(schedule::LoadToken, schedule::Worker&) noexcept override {}
  void segment(schedule::SlotToken, schedule::Worker&) noexcept override {}
  void on_message(const schedule::Message&) override {}
  void pump() override {}
  bool read_one() override { return false; }
  void thread_started(schedule::ThreadRole role, int index) override {
    const bool coordinator = role == schedule::ThreadRole::coordinator;
    arenas::bind_current_thread(topology_, coordinator ? placement_.coordinator : placement_.compute[size_t(index)]);
  }

 private:
  const arenas::Topology topology_;
  const arenas::Placement placement_;
  std::unique_ptr<schedule::Scheduler> scheduler_;
};

class Tiles : public exec::TileRunner {
 public:
  Tiles(schedule::Worker& worker, int workers) : worker_(worker), workers_(workers) {}
  int worker() const override { return worker_.index(); }
  int workers() const override { return workers_; }
  void run(int tiles, exec::TileFn fn, void* arg, double predicted_ns) override {
    Call call{fn, arg};
    worker_.run_tiles(
        tiles,
        [](void* bound, int64_t tile, int worker) {
          const Call& own = *static_cast<Call*>(bound);
          own.fn(own.arg, int(tile), worker);
        },
        &call, predicted_ns);
  }

 private:
  struct Call {
    exec::TileFn fn;
    void* arg;
  };
  schedule::Worker& worker_;
  const int workers_;
};

// A bound frame with its memory, over objects of its own.
class Loop {
 public:
  Loop(const std::string& path, int threads)
      : plan_(open(path)), objects_(*plan_), frame_(plan_, threads), input_(*plan_->model), threads_(threads) {
    input_.rewind();
    must(frame_.bind(input_.context));
    block_ = std::make_unique<bench::BenchMemory>(frame_.execution_bytes() + 1);
    for (const uint64_t bytes : frame_.output_bytes()) {
      outputs_.push_back(std::make_unique<bench::BenchMemory>(bytes + 1));
      held_.push_back({outputs_.back()->data(), bytes, nullptr});
    }
    frame_.attach({block_->data(), frame_.execution_bytes(), nullptr}, held_);
  }
  double predicted_ns() const { return frame_.predicted_ns(); }
  void run(schedule::Worker& worker) {
    Tiles tiles(worker, threads_);
    for (plan::SegmentId s = 0; s < plan::SegmentId(plan_->segments.size()); ++s)
      must(frame_.run_segment(s, objects_, tiles));
  }
  uint64_t checksum() {
    frame_.finish(input_.context);
    return input_.checksum();
  }

 private:
  static std::shared_ptr<const Plan> open(const std::string& path) {
    plan::PlanOptions options;
    options.isa = kernels::best_isa();
    return must(plan::build_plan(must(model::open_model(path, {})), options));
  }

  const std::shared_ptr<const Plan> plan_;
  const Objects objects_;
  exec::Frame frame_;
  Input input_;
  const int threads_;
  std::unique_ptr<bench::BenchMemory> block_;
  std::vector<std::unique_ptr<bench::BenchMemory>> outputs_;
  std::vector<exec::HeldBytes> held_;
};

void idle_us(int us) {
  const uint64_t end = session::now_ns() + uint64_t(us) * 1000;
  while (session::now_ns() < end) std::this_thread::yield();
}

// Times `run` alone; `between` and the gap come before each.
template <class Run, class Between>
void measure(benchmark::State& state, int gap_us, Run run, Between between) {
  uint64_t allocations = 0, least_ns = UINT64_MAX;
  for (auto _ : state) {
    between();
    if (gap_us > 0) idle_us(gap_us);
    const uint64_t before = cli::heap_allocations(), start_ns = session::now_ns();
    run();
    const uint64_t end_ns = session::now_ns();
    allocations += cli::heap_allocations() - before;
    least_ns = std::min(least_ns, end_ns - start_ns);
    state.SetIterationTime(double(end_ns - start_ns) * 1e-9);
  }
  state.counters["least_us"] = double(least_ns) * 1e-3;
  state.counters["heap_allocations"] = double(allocations) / double(state.iterations());
}

void run_loop(benchmark::State& state, const std::string& model, int threads, int gap_us) {
  Loop loop(models().path(model), threads);
  Team team(threads);
  struct Body {
    benchmark::State& state;
    Loop& loop;
    int gap_us;
  } body{state, loop, gap_us};
  const auto all = [](void* arg, schedule::Worker& worker) {
    const Body& own = *static_cast<Body*>(arg);
    worker.expect(own.loop.predicted_ns());
    own.loop.run(worker);
    measure(own.state, own.gap_us, [&] { own.loop.run(worker); }, [] {});
  };
  team.scheduler().run_on_caller(all, &body);
  state.SetLabel("checksum:" + std::to_string(loop.checksum()));
}

void run_session(benchmark::State& state, const std::string& model, int threads, int gap_us, bool async) {
  session::RuntimeOptions options;
  options.threads = threads;
  const std::shared_ptr<session::Runtime> runtime = must(session::Runtime::open(options));
  const auto session = must(session::RuntimeSession::open(runtime, models().path(model), {}));
  must(session->Prepare());
  Input input(*session->plan().model);
  const auto run = [&] { must(async ? session->RunAsync(input.context).Wait() : session->Run(input.context)); };
  for (int i = 0; i < 2; ++i) {
    input.rewind();
    run();
  }
  measure(state, gap_us, run, [&] { input.rewind(); });
  state.SetLabel("checksum:" + std::to_string(input.checksum()));
}

void add(const std::string& impl, const std::string& model, int threads, int gap_us, bool smoke) {
  std::string name = "hot_run/impl:" + impl + "/model:" + model + "/threads:" + std::to_string(threads);
  if (gap_us > 0) name += "/gap_us:" + std::to_string(gap_us);
  const auto body = [=](benchmark::State& state) {
    if (impl == "loop") {
      run_loop(state, model, threads, gap_us);
    } else {
      run_session(state, model, threads, gap_us, impl == "async");
    }
  };
  auto* const bench = benchmark::RegisterBenchmark(name.c_str(), body);
  bench->UseManualTime()->Unit(benchmark::kMicrosecond);
  if (smoke) bench->Iterations(3);
}

void add_all(bool smoke) {
  for (const std::string model : {"tiny-int4", "one-node"}) {
    for (const int threads : {1, 2}) {
      for (const std::string impl : {"session", "loop", "async"}) add(impl, model, threads, 0, smoke);
    }
    for (const std::string impl : {"session", "loop", "async"}) add(impl, model, 2, 1000, smoke);
  }
}

}  // namespace

int main(int argc, char** argv) { return bench::bench_main(argc, argv, add_all); }
