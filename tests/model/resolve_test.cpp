// Resolution: what is live, folded, removed and refused; the manifest; freezing; decoders.
#include <doctest/doctest.h>

#include "ompipe/model/resolver.h"
#include "onnx_builder.h"

TEST_SUITE_BEGIN("resolve");

namespace {

using namespace ompipe;
using namespace ompipe::model;
using namespace ompipe::test;

std::shared_ptr<const ResolvedModel> resolved(const ModelSpec& spec) {
  auto model = open_spec(spec);
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().message()));
  return *model;
}

Error refused(const ModelSpec& spec) {
  auto model = open_spec(spec);
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().kind == ErrorKind::bad_model);
  CHECK_FALSE(model.error().file.empty());
  return model.error();
}

ModelSpec relu_of(std::vector<std::string> dims) {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, std::move(dims)}};
  spec.nodes = {{"Relu", {"x"}, {"y"}, {}, "", "relu"}};
  spec.outputs = {{"y", DType::f32, {}, false}};
  return spec;
}

TEST_CASE("dead nodes and tensors go, and are counted as avoided") {
  ModelSpec spec = relu_of({"n", "4"});
  spec.initializers = {zeros("dead", DType::f32, {10}), zeros("behind dead", DType::f32, {2}),
                       zeros("live", DType::f32, {4})};
  spec.nodes.push_back({"Add", {"x", "behind dead"}, {"unused"}});
  spec.nodes.push_back({"Add", {"y", "live"}, {"z"}, {}, "", "sum"});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const auto model = resolved(spec);
  CHECK(model->nodes().size() == 2);
  CHECK(model->avoided_bytes(AvoidedReason::dead) == 48);
  CHECK(model->source_bytes() == 16);
  CHECK(model->metadata().nodes == 3);
  CHECK(model->manifest()[0].state == ManifestState::avoided);
  CHECK(model->manifest()[2].state == ManifestState::active);
  CHECK(model->manifest()[2].why == "Add sum");
}

TEST_CASE("only active payloads may be read") {
  ModelSpec spec = relu_of({"n", "4"});
  spec.initializers = {zeros("dead", DType::f32, {10}), zeros("live", DType::f32, {4})};
  spec.nodes.push_back({"Add", {"y", "live"}, {"z"}});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const auto model = resolved(spec);
  const auto live = model->readable(1);
  REQUIRE(live.ok());
  CHECK((*live)->name == "live");
  const auto dead = model->readable(0);
  REQUIRE_FALSE(dead.ok());
  CHECK(dead.error().phase == "manifest");
  CHECK(dead.error().subject == "dead");
  CHECK(dead.error().reason.find("no live node uses it") != std::string::npos);
}

TEST_CASE("nodes in the wrong order are sorted; a cycle is refused") {
  ModelSpec spec = relu_of({"4"});
  spec.nodes.insert(spec.nodes.begin(), {"Neg", {"y"}, {"z"}, {}, "", "neg"});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const auto model = resolved(spec);
  CHECK(model->node(0).name == "relu");
  CHECK(model->node(1).name == "neg");
  CHECK(value_named(*model, "z").producer == 1);

  spec.nodes = {{"Add", {"x", "b"}, {"a"}, {}, "", "first"}, {"Neg", {"a"}, {"b"}}};
  spec.outputs = {{"b", DType::f32, {}, false}};
  const Error error = refused(spec);
  CHECK(error.subject == "first");
  CHECK(error.reason.find("cycle") != std::string::npos);
}

TEST_CASE("unknown operators are named with node, domain and version") {
  ModelSpec spec = relu_of({"4"});
  spec.nodes[0] = {"Frobnicate", {"x"}, {"y"}, {}, "com.microsoft", "the node"};
  Error error = refused(spec);
  CHECK(error.phase == "resolve");
  CHECK(error.subject == "the node");
  CHECK(error.reason.find("unsupported operator Frobnicate (domain com.microsoft, opset 1)") != std::string::npos);
  spec.nodes[0] = {"Relu", {"x"}, {"y"}, {}, "somewhere"};
  CHECK(refused(spec).reason.find("does not import") != std::string::npos);
  spec.nodes[0] = {"LayerNormalization", {"x", "x"}, {"y"}};
  spec.opsets = {{"", 16}};
  CHECK(refused(spec).reason.find("other versions") != std::string::npos);
  spec = relu_of({"4"});
  spec.nodes[0] = {"Scan", {"x"}, {"y"}, {graph_attr("body", graph_message({}))}, "", "choice"};
  error = refused(spec);
  CHECK(error.subject == "choice");
  CHECK(error.reason.find("unsupported operator Scan") != std::string::npos);
  spec.nodes.push_back({"Relu", {"x"}, {"z"}});
  spec.outputs = {{"z", DType::f32, {}, false}};
  CHECK(resolved(spec)->nodes().size() == 1);
}

TEST_CASE("wrong numbers of inputs and outputs") {
  ModelSpec spec = relu_of({"4"});
  spec.nodes[0].inputs = {};
  CHECK(refused(spec).reason.find("0 inputs") != std::string::npos);
  spec.nodes[0].inputs = {"x", "x"};
  CHECK(refused(spec).reason.find("2 inputs") != std::string::npos);
  spec.nodes[0].inputs = {""};
  CHECK(refused(spec).reason.find("lacks its input 0") != std::string::npos);
  spec.nodes[0].inputs = {"x"};
  spec.nodes[0].outputs = {"y", "more"};
  CHECK(refused(spec).reason.find("2 outputs") != std::string::npos);
}

TEST_CASE("identities go, outputs keep their names") {
  ModelSpec spec = relu_of({"n", "4"});
  spec.initializers = {{.name = "off", .dtype = DType::boolean, .dims = {}, .raw = std::string(1, '\0')},
                       zeros("w", DType::f32, {4})};
  spec.nodes.push_back({"Dropout", {"y", "", "off"}, {"d", "mask"}});
  spec.nodes.push_back({"Identity", {"d"}, {"i"}});
  spec.nodes.push_back({"Cast", {"i"}, {"c"}, {int_attr("to", 1)}});
  spec.nodes.push_back({"Identity", {"w"}, {"weight"}});
  spec.nodes.push_back({"Identity", {"x"}, {"same"}});
  spec.outputs = {{"c", DType::f32, {}, false}, {"weight", DType::f32, {}, false}, {"same", DType::f32, {}, false}};
  const auto model = resolved(spec);
  CHECK(model->nodes().size() == 1);
  CHECK(model->outputs()[0].name == "c");
  CHECK(model->outputs()[0].value == id_named(*model, "y"));
  CHECK(model->outputs()[1].value == id_named(*model, "w"));
  CHECK(model->outputs()[2].value == id_named(*model, "x"));
  CHECK(model->readable(value_named(*model, "w").payload).ok());
  CHECK(shape_text(model->outputs()[0].shape) == "[n, 4]");

  spec.outputs.push_back({"mask", DType::boolean, {}, false});
  CHECK(refused(spec).reason.find("mask") != std::string::npos);
  spec.outputs.pop_back();
  spec.initializers[0].raw = std::string(1, '\1');
  CHECK(refused(spec).reason.find("training") != std::string::npos);
}

TEST_CASE("shape arithmetic on constants folds, and its bytes are counted") {
  ModelSpec spec = relu_of({"2", "3", "4"});
  spec.initializers = {i64s("zero", {0}), i64s("minus one", {-1}), i64s("unread", {1, 2, 3})};
  spec.nodes.push_back({"Shape", {"y"}, {"shape"}});
  spec.nodes.push_back({"Gather", {"shape", "zero"}, {"first"}});
  spec.nodes.push_back({"Mul", {"first", "first"}, {"square"}});
  spec.nodes.push_back({"Concat", {"square", "minus one"}, {"wanted"}, {int_attr("axis", 0)}});
  spec.nodes.push_back({"Reshape", {"y", "wanted"}, {"z"}});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const auto model = resolved(spec);
  CHECK(model->nodes().size() == 2);
  CHECK(shape_text(model->outputs()[0].shape) == "[4, 6]");
  const Value& wanted = value_named(*model, "wanted");
  REQUIRE(wanted.source == ValueSource::constant);
  CHECK(model->constants()[size_t(wanted.constant)].as_int64() == std::vector<int64_t>{4, -1});
  CHECK(model->resolve_read_bytes() == 16);
  CHECK(model->avoided_bytes(AvoidedReason::dead) == 24);
  CHECK(model->manifest()[0].why == "read at resolution");
  CHECK(model->manifest()[0].avoided == AvoidedReason::none);
  CHECK_FALSE(model->readable(0).ok());
}

TEST_CASE("inline scalars become constants, weights never do") {
  ModelSpec spec;
  spec.inputs = {{"x", DType::f32, {"n", "1"}}};
  spec.initializers = {{.name = "two", .dims = {}, .raw = f32_bytes({2})},
                       {.name = "w", .dims = {1, 1}, .raw = f32_bytes({3})},
                       {.name = "row", .dims = {2}, .raw = f32_bytes({1, 1})}};
  spec.nodes = {{"Pow", {"x", "two"}, {"a"}},
                {"MatMul", {"a", "w"}, {"b"}},
                {"Add", {"b", "w"}, {"c"}},
                {"Add", {"c", "row"}, {"d"}}};
  spec.outputs = {{"d", DType::f32, {}, false}};
  const auto model = resolved(spec);
  CHECK(value_named(*model, "two").source == ValueSource::constant);
  CHECK(value_named(*model, "w").source == ValueSource::initializer);
  CHECK(value_named(*model, "row").source == ValueSource::initializer);
}

TEST_CASE("an overridable initializer is active, and never a constant") {
  ModelSpec spec = relu_of({"4"});
  spec.inputs.push_back({"axes", DType::i64, {"1"}});
  spec.initializers = {i64s("axes", {0})};
  spec.nodes.push_back({"Unsqueeze", {"y", "axes"}, {"z"}});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const auto model = resolved(spec);
  CHECK(value_named(*model, "axes").source == ValueSource::overridable);
  CHECK(model->readable(0).ok());
  CHECK(model->resolve_read_bytes() == 0);
}

TEST_CASE("an output of another type than declared is refused") {
  ModelSpec spec = relu_of({"4"});
  spec.outputs[0].dtype = DType::i64;
  CHECK(refused(spec).reason.find("float32, the model declares int64") != std::string::npos);
}

TEST_CASE("freeze refuses what isn't resolved") {
  TempFolder folder;
  ModelSpec spec = relu_of({"4"});
  spec.initializers = {zeros("w", DType::f32, {4})};
  spec.nodes.push_back({"Add", {"y", "w"}, {"z"}, {}, "", "sum"});
  spec.outputs = {{"z", DType::f32, {}, false}};
  const auto path = folder.write("m.onnx", model_bytes(spec));
  auto freeze_after = [&](auto change, auto steps) {
    auto graph = read_model(path, {});
    REQUIRE(graph.ok());
    change(*graph);
    Resolver resolver(std::move(*graph));
    steps(resolver);
    auto frozen = std::move(resolver).freeze();
    REQUIRE_FALSE(frozen.ok());
    CHECK(frozen.error().phase == "freeze");
    CHECK(frozen.error().kind == ErrorKind::bad_model);
    return frozen.error();
  };
  auto nothing = [](auto&) {};
  auto all = [](Resolver& resolver) { (void)resolver.resolve(); };
  CHECK(freeze_after(nothing, nothing).reason.find("incomplete") != std::string::npos);
  CHECK(freeze_after(nothing, [](Resolver& r) { r.build_manifest(); }).reason.find("kernel") != std::string::npos);
  CHECK(freeze_after(nothing, [](Resolver& r) {
          REQUIRE(r.choose_kernels().ok());
          r.build_manifest();
        }).reason.find("element type") != std::string::npos);
  CHECK(freeze_after([](ModelGraph& g) { g.inputs.clear(); }, all).reason.find("port") != std::string::npos);
  const Error orphan = freeze_after(
      [](ModelGraph& g) {
        g.nodes[1].inputs[0] = 3;  // its own result
        g.values[3].producer = kNone;
        g.values[3].dtype = DType::f32;
      },
      all);
  CHECK(orphan.phase == "freeze");
  CHECK(freeze_after([](ModelGraph& g) { g.values[1].payload = kNone; }, all).subject == "w");
}

TEST_CASE("strings that a live node needs are refused") {
  ModelSpec spec;
  spec.initializers = {{.name = "s", .dtype = DType::string, .dims = {1}, .form = Form::none}};
  spec.outputs = {{"s", DType::string, {}, false}};
  const Error error = refused(spec);
  CHECK(error.subject == "s");
  CHECK(error.reason.find("string") != std::string::npos);
  spec.inputs = {{"x", DType::f32, {"4"}}};
  spec.outputs = {{"x", DType::f32, {}, false}};
  CHECK(resolved(spec)->notes().size() == 1);
}

ModelSpec decoder() {
  ModelSpec spec;
  spec.inputs = {{"input_ids", DType::i64, {"b", "s"}}, {"attention_mask", DType::i64, {"b", "t"}}};
  spec.initializers = {zeros("table", DType::f32, {16, 4})};
  spec.nodes = {{"Gather", {"table", "input_ids"}, {"logits"}}};
  for (const char* part : {"key", "value"}) {
    const std::string past = std::string("past_key_values.0.") + part, present = std::string("present.0.") + part;
    spec.inputs.push_back({past, DType::f32, {"b", "2", "p", "8"}});
    spec.nodes.push_back({"Neg", {past}, {present}});
    spec.outputs.push_back({present, DType::f32, {"b", "2", "t", "8"}});
  }
  spec.outputs.push_back({"logits", DType::f32, {"b", "s", "4"}});
  return spec;
}

TEST_CASE("decoders are recognised by their names") {
  const auto model = resolved(decoder());
  REQUIRE(model->decoder().has_value());
  const DecoderSignature& decoder_found = *model->decoder();
  CHECK(decoder_found.input_ids == 0);
  CHECK(decoder_found.attention_mask == 1);
  CHECK(decoder_found.position_ids == kNone);
  CHECK(decoder_found.logits == 2);
  REQUIRE(decoder_found.caches.size() == 1);
  CHECK(decoder_found.caches[0].past_value == 3);
  CHECK(decoder_found.caches[0].present_key == 0);
  CHECK(decoder_found.kv_heads == 2);
  CHECK(decoder_found.head_size == 8);
  CHECK(model->input_index("attention_mask") == 1);
  CHECK(model->output_index("none") == kNone);
}

TEST_CASE("what lacks a part is no decoder") {
  ModelSpec spec = decoder();
  spec.outputs.erase(spec.outputs.begin());
  CHECK_FALSE(resolved(spec)->decoder().has_value());
  spec = decoder();
  spec.inputs[1].name = "mask";
  CHECK_FALSE(resolved(spec)->decoder().has_value());
  spec = decoder();
  spec.inputs.push_back({"pixels", DType::f32, {"b"}});
  CHECK_FALSE(resolved(spec)->decoder().has_value());
}

}  // namespace

TEST_SUITE_END();
