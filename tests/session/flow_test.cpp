// Models with If and Loop through sessions: what is computed, and what is read and what never is.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "../model/onnx_builder.h"
#include "ompipe/device/emulated.h"
#include "ompipe/model/resolver.h"
#include "ompipe/session/accounting.h"
#include "rig.h"

namespace ompipe::session::testing {
namespace {

using model::DType;
using test::graph_attr;
using test::graph_message;
using test::ModelSpec;
using test::TempFolder;

constexpr int64_t kWidth = 16;
using Matrix = std::vector<float>;  // kWidth x kWidth

// Small integers: products and sums are exact in any order.
Matrix matrix(int seed) {
  Matrix made(size_t(kWidth * kWidth));
  for (size_t i = 0; i < made.size(); ++i) made[i] = float(int((i * 7 + size_t(seed) * 13) % 3) - 1);
  return made;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix made(a.size(), 0);
  for (size_t row = 0; row < size_t(kWidth); ++row) {
    for (size_t k = 0; k < size_t(kWidth); ++k) {
      for (size_t column = 0; column < size_t(kWidth); ++column)
        made[row * kWidth + column] += a[row * kWidth + k] * b[k * kWidth + column];
    }
  }
  return made;
}

test::Tensor weight(const std::string& name, int seed) {
  return {.name = name, .dims = {kWidth, kWidth}, .raw = test::f32_bytes(matrix(seed))};
}

test::NodeSpec mat_mul(const std::string& a, const std::string& b, const std::string& y) {
  return {"MatMul", {a, b}, {y}, {}, "", "node_" + y};
}

test::PortSpec port(const std::string& name) { return {name, DType::f32, {}, false}; }

Matrix elements(const exec::RuntimeContext& context, const std::string& name) {
  const exec::HeldTensor* const tensor = context.output(name);
  REQUIRE(tensor != nullptr);
  return elements_of(tensor->view);
}

// How often objects of that name were read, by name.
std::map<std::string, int> reads(Watcher& watcher) {
  std::map<std::string, int> found;
  for (const Seen& seen : watcher.seen()) {
    if (seen.kind == TaskKind::read) ++found[seen.name];
  }
  return found;
}

void run_everywhere(const std::function<void(const std::string& scheduler, Mode mode)>& body) {
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    for (const Mode mode : {Mode::streaming, Mode::eager, Mode::on_demand}) {
      CAPTURE(scheduler);
      CAPTURE(int(mode));
      body(scheduler, mode);
    }
  }
}

// s = s w, stacked too, while the number of the pass is at most k, `m` times at most; then y = s w_last.
ModelSpec looping() {
  ModelSpec body;
  body.inputs = {{"i", DType::i64, {}}, {"go", DType::boolean, {}}, port("s")};
  body.initializers = {weight("w_body", 2)};
  body.nodes = {mat_mul("s", "w_body", "next"), {"Min", {"i", "k"}, {"least"}}, {"Equal", {"least", "i"}, {"go_on"}}};
  body.outputs = {{"go_on", DType::boolean, {}, false}, port("next"), port("next")};
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"16", "16"}}, {"m", DType::i64, {}}, {"k", DType::i64, {}}};
  spec.initializers = {{.name = "yes", .dtype = DType::boolean, .dims = {}, .raw = std::string(1, 1)},
                       weight("w_last", 3)};
  spec.nodes = {{"Loop", {"m", "yes", "x"}, {"s_last", "all"}, {graph_attr("body", graph_message(body))}, "", "loop"},
                mat_mul("s_last", "w_last", "y")};
  spec.outputs = {port("y"), port("all")};
  return spec;
}

std::vector<exec::NamedTensor> loop_inputs(int64_t m, int64_t k) {
  return {feed<float>("x", DType::f32, {kWidth, kWidth}, matrix(9)), feed<int64_t>("m", DType::i64, {}, {m}),
          feed<int64_t>("k", DType::i64, {}, {k})};
}

void check_loop(const exec::RuntimeContext& context, int64_t m, int64_t k) {
  Matrix s = matrix(9), all;
  for (int64_t i = 0; i < m; ++i) {
    s = product(s, matrix(2));
    all.insert(all.end(), s.begin(), s.end());
    if (i > k) break;
  }
  CHECK(elements(context, "y") == product(s, matrix(3)));
  CHECK(elements(context, "all") == all);
}

// x w_first, then of an If: x w_then w_both or x w_else w_both; then w_last.
ModelSpec branching() {
  ModelSpec then, other;
  then.initializers = {weight("w_then", 2)};
  then.nodes = {mat_mul("first", "w_then", "t"), mat_mul("t", "w_both", "t2")};
  then.outputs = {port("t2")};
  other.initializers = {weight("w_else", 3)};
  other.nodes = {mat_mul("first", "w_else", "e"), mat_mul("e", "w_both", "e2")};
  other.outputs = {port("e2")};
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"16", "16"}}, {"c", DType::boolean, {}}};
  spec.initializers = {weight("w_first", 1), weight("w_both", 4), weight("w_last", 5)};
  spec.nodes = {mat_mul("x", "w_first", "first"),
                {"If",
                 {"c"},
                 {"chosen"},
                 {graph_attr("then_branch", graph_message(then)), graph_attr("else_branch", graph_message(other))},
                 "",
                 "choose"},
                mat_mul("chosen", "w_last", "y")};
  spec.outputs = {port("y")};
  return spec;
}

}  // namespace

TEST_SUITE_BEGIN("flow");

TEST_CASE("an If: the chosen branch's result in every mode; the other's weight is never read, the rest once") {
  TempFolder folder;
  const std::string path = folder.write("model.onnx", model_bytes(branching()));
  run_everywhere([&](const std::string& scheduler, Mode mode) {
    for (const bool chosen : {true, false}) {
      CAPTURE(chosen);
      Watcher watcher;
      Rig rig({.scheduler = scheduler, .threads = 2, .observer = &watcher});
      RuntimeSession& session = rig.open({.mode = mode}, path);
      if (mode != Mode::on_demand) REQUIRE(session.Prepare().ok());
      CHECK(reads(watcher).count("w_then") + reads(watcher).count("w_else") == 0);
      exec::RuntimeContext context;
      context.inputs = {feed<float>("x", DType::f32, {kWidth, kWidth}, matrix(9)),
                        feed<uint8_t>("c", DType::boolean, {}, {chosen})};
      for (int run = 0; run < 2; ++run) {
        const Status status = session.Run(context);
        REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
        Matrix wanted = product(product(matrix(9), matrix(1)), matrix(chosen ? 2 : 3));
        wanted = product(product(wanted, matrix(4)), matrix(5));
        CHECK(elements(context, "y") == wanted);
      }
      CHECK(reads(watcher) == std::map<std::string, int>{
                                  {"w_first", 1}, {chosen ? "w_then" : "w_else", 1}, {"w_both", 1}, {"w_last", 1}});
      CHECK(session.avoided_branch_bytes() == uint64_t(kWidth * kWidth) * sizeof(float));
    }
  });
}

TEST_CASE("a Loop: its body's weight is read once for all passes, and not at all if there is none; it runs cold") {
  TempFolder folder;
  const std::string path = folder.write("model.onnx", model_bytes(looping()));
  run_everywhere([&](const std::string& scheduler, Mode mode) {
    for (const int64_t m : {0, 1, 5}) {
      for (const int64_t k : {0, 9}) {
        CAPTURE(m);
        CAPTURE(k);
        Watcher watcher;
        Rig rig({.scheduler = scheduler, .threads = 2, .observer = &watcher});
        RuntimeSession& session = rig.open({.mode = mode}, path);
        exec::RuntimeContext context;
        context.inputs = loop_inputs(m, k);
        for (int run = 0; run < 2; ++run) {
          const ExecutionHandle handle = session.RunAsync(context);
          const Status status = handle.Wait();
          REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
          CHECK_FALSE(handle.diagnostics().hot);
          check_loop(context, m, k);
        }
        std::map<std::string, int> wanted{{"w_last", 1}};
        if (m > 0) wanted["w_body"] = 1;
        CHECK(reads(watcher) == wanted);
      }
    }
  });
}

TEST_CASE("a Loop in as little room as its largest segment needs") {
  TempFolder folder;
  const std::string path = folder.write("model.onnx", model_bytes(looping()));
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    Watcher watcher;
    Rig rig({.scheduler = scheduler, .threads = 2, .limits = {.prepared_bytes = 4096}, .observer = &watcher});
    RuntimeSession& session = rig.open({.mode = Mode::on_demand}, path);
    exec::RuntimeContext context;
    context.inputs = loop_inputs(5, 9);
    for (int run = 0; run < 2; ++run) {
      const Status status = session.Run(context);
      REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
      check_loop(context, 5, 9);
    }
    CHECK(reads(watcher) == std::map<std::string, int>{{"w_body", 2}, {"w_last", 2}});
  }
}

TEST_CASE("with a device: it runs what stands before and beside an If or Loop, the rest runs as without one") {
  ModelSpec loop = looping();
  loop.initializers.push_back(weight("w_beside", 6));
  loop.nodes.push_back(mat_mul("x", "w_beside", "beside"));  // the last segment; `all` has its shape from the run
  loop.outputs.push_back(port("beside"));
  TempFolder folder;
  const std::string loop_path = folder.write("loop.onnx", model_bytes(loop));
  const std::string if_path = folder.write("if.onnx", model_bytes(branching()));
  run_everywhere([&](const std::string& scheduler, Mode mode) {
    device::EmulatedBackend backend({});
    Rig rig({.scheduler = scheduler, .threads = 2, .backend = &backend});
    RuntimeSession& looped = rig.open({.mode = mode}, loop_path);
    CHECK(looped.plan().device_actions == 1);
    RuntimeSession& branched = rig.open({.mode = mode}, if_path);
    CHECK(branched.plan().device_actions == 1);
    for (int run = 0; run < 2; ++run) {
      exec::RuntimeContext context;
      context.inputs = loop_inputs(5, run == 0 ? 9 : 1);
      Status status = looped.Run(context);
      REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
      check_loop(context, 5, run == 0 ? 9 : 1);
      CHECK(elements(context, "beside") == product(matrix(9), matrix(6)));
      exec::RuntimeContext other;
      other.inputs = {feed<float>("x", DType::f32, {kWidth, kWidth}, matrix(9)),
                      feed<uint8_t>("c", DType::boolean, {}, {uint8_t(run)})};
      status = branched.Run(other);
      REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
      const Matrix wanted = product(product(matrix(9), matrix(1)), matrix(run == 1 ? 2 : 3));
      CHECK(elements(other, "y") == product(product(wanted, matrix(4)), matrix(5)));
    }
    CHECK(rig.runtime().figures().device.read_back_bytes == 4 * matrix(9).size() * sizeof(float));
  });
}

TEST_CASE("a stack that doesn't fit fails its own run, with the numbers; the next one is right") {
  TempFolder folder;
  const std::string path = folder.write("model.onnx", model_bytes(looping()));
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    Rig rig({.scheduler = scheduler, .threads = 2, .limits = {.execution_bytes = 128u << 10}});
    RuntimeSession& session = rig.open({}, path);
    exec::RuntimeContext context;
    context.inputs = loop_inputs(1000, 500);
    const ExecutionHandle handle = session.RunAsync(context);
    const Status status = handle.Wait();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::cannot_fit);
    CHECK(status.error().reason.find("more bytes of execution") != std::string::npos);
    CHECK(status.error().reason.find("the limit is 131072") != std::string::npos);
    CHECK(handle.diagnostics().failed_task.starts_with("segment "));
    context.inputs = loop_inputs(4, 9);
    REQUIRE(session.Run(context).ok());
    check_loop(context, 4, 9);
  }
}

TEST_CASE("cancelled in a Loop that would never end") {
  ModelSpec spec = looping();
  ModelSpec body;
  body.inputs = {{"i", DType::i64, {}}, {"go", DType::boolean, {}}, port("s")};
  body.initializers = {weight("w_body", 2)};
  body.nodes = {mat_mul("s", "w_body", "next"), {"Equal", {"i", "i"}, {"go_on"}}};
  body.outputs = {{"go_on", DType::boolean, {}, false}, port("next")};
  spec.nodes[0] = {"Loop", {"", "yes", "x"}, {"s_last"}, {graph_attr("body", graph_message(body))}, "", "loop"};
  spec.inputs.resize(1);
  spec.outputs.resize(1);
  TempFolder folder;
  const std::string path = folder.write("model.onnx", model_bytes(spec));
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    Watcher watcher;
    Rig rig({.scheduler = scheduler, .threads = 2, .observer = &watcher});
    RuntimeSession& session = rig.open({}, path);
    exec::RuntimeContext context;
    context.inputs = {feed<float>("x", DType::f32, {kWidth, kWidth}, matrix(9))};
    ExecutionHandle handle = session.RunAsync(context);
    int passes = 0;
    watcher.wait_for([&](const Seen& seen) { return seen.kind == TaskKind::segment && ++passes > 100; });
    handle.Cancel();
    const Status status = handle.Wait();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::cancelled);
    CHECK(handle.diagnostics().suppressed.back() == "node_y");
  }
}

TEST_CASE("a node that fails in a pass fails its run, named with the pass") {
  ModelSpec spec = looping();
  ModelSpec body;
  body.inputs = {{"i", DType::i64, {}}, {"go", DType::boolean, {}}};
  body.nodes = {{"Gather", {"x", "i"}, {"row"}, {}, "", "pick"}, {"Identity", {"go"}, {"go_on"}}};
  body.outputs = {{"go_on", DType::boolean, {}, false}, port("row")};
  spec.nodes = {{"Loop", {"m", ""}, {"y"}, {graph_attr("body", graph_message(body))}, "", "loop"}};
  spec.inputs.resize(2);
  spec.outputs.resize(1);
  spec.initializers.clear();
  TempFolder folder;
  const std::string path = folder.write("model.onnx", model_bytes(spec));
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    Rig rig({.scheduler = scheduler, .threads = 2});
    RuntimeSession& session = rig.open({}, path);
    exec::RuntimeContext context;
    context.inputs = loop_inputs(20, 0);
    context.inputs.pop_back();
    const ExecutionHandle handle = session.RunAsync(context);
    const Status status = handle.Wait();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().subject == "pick");
    CHECK(handle.diagnostics().failed_task == "segment pick in pass 16");
    context.inputs = loop_inputs(16, 0);
    context.inputs.pop_back();
    REQUIRE(session.Run(context).ok());
    CHECK(elements(context, "y") == matrix(9));
  }
}

TEST_CASE("predicted memory: of an If the branch with more to prepare, of a Loop one pass") {
  const auto segments_of = [](const ModelSpec& spec, std::vector<exec::NamedTensor> inputs) {
    const auto model = test::open_spec(spec);
    REQUIRE(model.ok());
    const auto plan = plan::build_plan(*model, {});
    REQUIRE(plan.ok());
    exec::RuntimeContext context;
    context.inputs = std::move(inputs);
    const auto accounting = predict_accounting(*plan, {&context, 1}, {.threads = 1}, {}, true);
    REQUIRE_MESSAGE(accounting.ok(), (accounting.ok() ? "" : accounting.error().message()));
    std::vector<plan::SegmentId> segments;
    for (const AccountingStep& step : accounting->steps) {
      if (step.segment != plan::kNone) segments.push_back(step.segment);
    }
    return segments;
  };
  ModelSpec more;
  more.initializers = {weight("w_else", 3), weight("w_more", 6)};
  more.nodes = {mat_mul("first", "w_else", "e"), mat_mul("e", "w_more", "e2")};
  more.outputs = {port("e2")};
  ModelSpec spec = branching();
  spec.nodes[1].attributes[1] = graph_attr("else_branch", graph_message(more));
  spec.initializers.erase(spec.initializers.begin() + 1);
  ModelSpec less;
  less.nodes = {{"Relu", {"first"}, {"t"}}};
  less.outputs = {port("t")};
  spec.nodes[1].attributes[0] = graph_attr("then_branch", graph_message(less));
  CHECK(segments_of(spec, {feed<float>("x", DType::f32, {kWidth, kWidth}, matrix(9)),
                           feed<uint8_t>("c", DType::boolean, {}, {1})}) == std::vector<plan::SegmentId>{0, 2, 3});
  CHECK(segments_of(looping(), loop_inputs(5, 9)) == std::vector<plan::SegmentId>{0, 1, 2});
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
