// Binding: concrete shapes of all values, contents that follow from shapes, and every way an input can be wrong.
#include <doctest/doctest.h>

#include "ompipe/model/resolver.h"
#include "ompipe/model/shape_binder.h"
#include "onnx_builder.h"

TEST_SUITE_BEGIN("binder");

namespace {

using namespace ompipe;
using namespace ompipe::model;
using namespace ompipe::test;
using Dims = std::vector<int64_t>;

// total = Shape(mask)[1] as int32; y = x reshaped to [batch * total]; z = x + default.
ModelSpec lengths() {
  ModelSpec spec;
  spec.inputs = {
      {"x", DType::f32, {"batch", "4"}}, {"mask", DType::i64, {"batch", "total"}}, {"default", DType::f32, {"k"}}};
  spec.initializers = {i64_scalar("one", 1), i64s("flat", {-1}), zeros("default", DType::f32, {4})};
  spec.nodes = {{"Shape", {"mask"}, {"shape"}},
                {"Gather", {"shape", "one"}, {"length"}},
                {"Cast", {"length"}, {"total"}, {int_attr("to", 6)}},
                {"Reshape", {"mask", "flat"}, {"y"}},
                {"Add", {"x", "default"}, {"z"}, {}, "", "sum"}};
  spec.outputs = {{"total", DType::i32, {}, false}, {"y", DType::i64, {}, false}, {"z", DType::f32, {}, false}};
  return spec;
}

struct Bound {
  std::shared_ptr<const ResolvedModel> model;
  ShapeBinder binder;
  explicit Bound(std::shared_ptr<const ResolvedModel> opened) : model(std::move(opened)), binder(*model) {}

  Dims shape(const char* name) const {
    const auto dims = binder.shape(id_named(*model, name));
    return Dims(dims.begin(), dims.end());
  }
};

Bound bound(const ModelSpec& spec) {
  auto model = open_spec(spec);
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  return Bound(*model);
}

TEST_CASE("shapes and contents follow from the inputs' shapes, again and again") {
  Bound run = bound(lengths());
  for (int64_t batch : {1, 3, 2}) {
    const Dims x = {batch, 4}, mask = {batch, 5};
    const BoundInput inputs[] = {{DType::f32, x}, {DType::i64, mask}, {}};
    const Status status = run.binder.bind(inputs);
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
    CHECK(run.shape("y") == Dims{batch * 5});
    CHECK(run.shape("z") == Dims{batch, 4});
    CHECK(run.shape("total").empty());
    const ValueId total = id_named(*run.model, "total");
    REQUIRE(run.binder.contents(total).size() == 1);
    CHECK(run.binder.contents(total)[0].value == 5);
    CHECK(run.binder.bytes(id_named(*run.model, "z")) == uint64_t(batch) * 16);
    CHECK(run.binder.symbol_size("batch") == batch);
    CHECK(run.binder.symbol_size("total") == 5);
    CHECK(run.binder.symbol_size("none") == kNone);
  }
}

TEST_CASE("a fed overridable input brings its own shape, and gives it back") {
  Bound run = bound(lengths());
  const Dims x = {2, 4}, mask = {2, 5}, one = {1}, three = {3};
  const BoundInput fed[] = {{DType::f32, x}, {DType::i64, mask}, {DType::f32, one}};
  REQUIRE(run.binder.bind(fed).ok());
  CHECK(run.shape("default") == Dims{1});
  const BoundInput unfed[] = {{DType::f32, x}, {DType::i64, mask}, {}};
  REQUIRE(run.binder.bind(unfed).ok());
  CHECK(run.shape("default") == Dims{4});
  const BoundInput wrong[] = {{DType::f32, x}, {DType::i64, mask}, {DType::f32, three}};
  const Status refused = run.binder.bind(wrong);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().subject == "sum");
  CHECK(refused.error().reason.find("[2, 4] and [3]") != std::string::npos);
}

TEST_CASE("inputs that don't fit are refused by name, with what they are and should be") {
  Bound run = bound(lengths());
  const Dims x = {2, 4}, mask = {2, 5}, narrow = {2, 3}, flat = {8}, other = {3, 5}, negative = {-2, 4};
  const Dims vast = {int64_t{1} << 40, int64_t{1} << 40};
  struct Case {
    BoundInput x, mask;
    const char *subject, *reason;
  };
  const Case cases[] = {
      {{}, {DType::i64, mask}, "x", "not fed"},
      {{DType::i64, x}, {DType::i64, mask}, "x", "input is int64, expected float32"},
      {{DType::f32, narrow},
       {DType::i64, mask},
       "x",
       "shape [2, 3], expected [batch, 4]: dimension 1 is 3, expected 4"},
      {{DType::f32, flat}, {DType::i64, mask}, "x", "shape [8], expected [batch, 4]"},
      {{DType::f32, x}, {DType::i64, other}, "mask", "batch is 3, expected 2 as in input x"},
      {{DType::f32, negative}, {DType::i64, mask}, "x", "negative"},
      {{DType::f32, x}, {DType::i64, vast}, "mask", "batch is"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.reason);
    const BoundInput inputs[] = {wrong.x, wrong.mask, {}};
    const Status status = run.binder.bind(inputs);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::usage);
    CHECK(status.error().phase == "bind");
    CHECK(status.error().subject == wrong.subject);
    CHECK_MESSAGE(status.error().reason.find(wrong.reason) != std::string::npos, status.error().message());
  }
}

TEST_CASE("contents of a small input are followed when they are given") {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n"}}, {"wanted", DType::i64, {"2"}}};
  spec.nodes = {{"Reshape", {"x", "wanted"}, {"y"}}, {"Relu", {"y"}, {"z"}}};
  spec.outputs = {{"z", DType::f32, {}, false}};
  Bound run = bound(spec);
  const Dims x = {6}, two = {2};
  const int64_t wanted[] = {3, -1};
  const BoundInput with[] = {{DType::f32, x}, {DType::i64, two, wanted}};
  REQUIRE(run.binder.bind(with).ok());
  CHECK(run.shape("z") == Dims{3, 2});
  const BoundInput without[] = {{DType::f32, x}, {DType::i64, two}};
  REQUIRE(run.binder.bind(without).ok());
  CHECK_FALSE(run.binder.known(id_named(*run.model, "z")));
  CHECK(run.binder.known(id_named(*run.model, "x")));
}

}  // namespace

TEST_SUITE_END();
