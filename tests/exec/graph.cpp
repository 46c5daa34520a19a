#include "graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <new>

namespace ompipe::exec::testing {

using model::kNone;
using model::ValueId;
using model::ValueSource;

bool MemoryObjects::narrow(plan::ObjectId object) const {
  CHECK(std::exchange(asked_, plan::kNone) == object);
  return false;
}

std::shared_ptr<std::byte> MemoryObjects::allocate(uint64_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(std::max<uint64_t>(bytes, 1), std::align_val_t(64)));
  std::memset(data, 0xFF, bytes);
  return {data, [](std::byte* pointer) { ::operator delete(pointer, std::align_val_t(64)); }};
}

Graph::Graph() {
  graph_.metadata.path = "graph";
  graph_.metadata.opsets = {{"", 17}, {"com.microsoft", 1}};
  graph_.files.emplace_back();
  graph_.files[0].path = "graph";
}

ValueId Graph::value(const std::string& name, ValueSource source) {
  model::Value made;
  made.name = name;
  made.source = source;
  graph_.values.push_back(std::move(made));
  return ValueId(graph_.values.size()) - 1;
}

ValueId Graph::shaped_input(const std::string& name, model::DType dtype, model::SymbolicShape shape) {
  const ValueId id = value(name, ValueSource::graph_input);
  graph_.values[size_t(id)].dtype = dtype;
  graph_.values[size_t(id)].shape = shape;
  graph_.values[size_t(id)].has_shape = true;
  graph_.inputs.push_back({name, id, dtype, std::move(shape), true});
  return id;
}

ValueId Graph::input(const std::string& name, model::DType dtype, const std::vector<int64_t>& dims) {
  model::SymbolicShape shape;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) {
      shape.push_back({dims[i], {}});
    } else {
      shape.push_back({{}, name + "_" + std::to_string(i)});
    }
  }
  return shaped_input(name, dtype, std::move(shape));
}

ValueId Graph::constant(model::DType dtype, const std::vector<int64_t>& dims, const void* data, size_t bytes) {
  const ValueId id = value("constant_" + std::to_string(graph_.values.size()), ValueSource::constant);
  model::Value& made = graph_.values[size_t(id)];
  made.dtype = dtype;
  made.has_shape = true;
  for (const int64_t dim : dims) made.shape.push_back({dim, {}});
  made.constant = int32_t(graph_.constants.size());
  const auto* begin = static_cast<const uint8_t*>(data);
  graph_.constants.push_back({dtype, dims, std::vector<uint8_t>(begin, begin + bytes)});
  return id;
}

ValueId Graph::weight(const std::string& name, model::DType dtype, const std::vector<int64_t>& dims, const void* data,
                      size_t bytes, bool overridable) {
  const ValueId id = value(name, overridable ? ValueSource::overridable : ValueSource::initializer);
  model::Value& made = graph_.values[size_t(id)];
  made.dtype = dtype;
  made.has_shape = true;
  for (const int64_t dim : dims) made.shape.push_back({dim, {}});
  made.payload = model::PayloadId(graph_.payloads.size());
  model::Payload payload;
  payload.name = name;
  payload.file = 0;
  payload.offset = graph_.payloads.size() << 20;
  payload.length = bytes;
  payload.dtype = dtype;
  payload.dims = dims;
  graph_.payloads.push_back(payload);
  const auto* begin = static_cast<const std::byte*>(data);
  bytes_[name] = std::vector<std::byte>(begin, begin + bytes);
  if (overridable) graph_.inputs.push_back({name, id, dtype, made.shape, true});
  return id;
}

ValueId Graph::reshaped(ValueId weight, const std::string& name, const std::vector<int64_t>& dims) {
  const ValueId id = value(name, ValueSource::initializer);
  model::Value& made = graph_.values[size_t(id)];
  made.dtype = graph_.values[size_t(weight)].dtype;
  made.payload = graph_.values[size_t(weight)].payload;
  made.has_shape = true;
  for (const int64_t dim : dims) made.shape.push_back({dim, {}});
  return id;
}

Ids Graph::node(const std::string& op, const Ids& inputs, int outputs, std::vector<model::Attribute> attributes,
                const std::string& domain) {
  model::Node node;
  node.name = op + "_" + std::to_string(graph_.nodes.size());
  node.op_type = op;
  node.domain = domain;
  node.opset = domain.empty() ? opset : 1;
  node.inputs = inputs;
  node.graph = current_;
  node.attributes = std::move(attributes);
  for (int i = 0; i < outputs; ++i) {
    node.outputs.push_back(value(node.name + "." + std::to_string(i), ValueSource::node));
    graph_.values[size_t(node.outputs.back())].producer = model::NodeId(graph_.nodes.size());
  }
  graph_.nodes.push_back(node);
  return node.outputs;
}

void Graph::make_absent(ValueId output) {
  model::Node& node = graph_.nodes[size_t(graph_.values[size_t(output)].producer)];
  std::replace(node.outputs.begin(), node.outputs.end(), output, ValueId(kNone));
}

Ids Graph::flow(const std::string& op, const Ids& inputs, int outputs) {
  const Ids made = node(op, inputs, outputs);
  open_.push_back(model::NodeId(graph_.nodes.size()) - 1);
  return made;
}

Ids Graph::begin(const std::string& attribute, const std::vector<model::DType>& inputs) {
  current_ = model::SubgraphId(graph_.graphs.size());
  model::Subgraph made;
  made.name = attribute;
  made.owner = open_.back();
  for (const model::DType dtype : inputs) {
    made.inputs.push_back(value(attribute + "_input" + std::to_string(graph_.values.size()), ValueSource::body_input));
    graph_.values.back().dtype = dtype;
  }
  model::Node& owner = graph_.nodes[size_t(open_.back())];
  owner.graphs.push_back(current_);
  owner.attributes.push_back({attribute, model::GraphRef{current_}});
  graph_.graphs.push_back(made);
  return made.inputs;
}

void Graph::end(const Ids& outputs) {
  graph_.graphs[size_t(current_)].outputs = outputs;
  current_ = graph_.nodes[size_t(open_.back())].graph;
}

void Graph::output(const std::string& name, ValueId value) { graph_.outputs.push_back({name, value, {}, {}, false}); }

std::shared_ptr<const plan::PreparedExecutionPlan> Graph::plan(const plan::PlanOptions& options) {
  model::Resolver resolver(graph_);
  const Status resolved = resolver.resolve();
  REQUIRE_MESSAGE(resolved.ok(), (resolved ? "" : resolved.error().message()));
  auto frozen = std::move(resolver).freeze();
  REQUIRE_MESSAGE(frozen.ok(), (frozen ? "" : frozen.error().message()));
  auto built = plan::build_plan(*frozen, options);
  REQUIRE_MESSAGE(built.ok(), (built ? "" : built.error().message()));
  return *built;
}

MemoryObjects Graph::prepare(const plan::PreparedExecutionPlan& plan) const {
  MemoryObjects table;
  const auto bytes_of = [&](const plan::PreparedObject& object, size_t source) {
    return source < object.sources.size() ? bytes_.at(plan.model->payload(object.sources[source].payload).name).data()
                                          : nullptr;
  };
  for (const plan::PreparedObject& object : plan.objects) {
    auto memory = MemoryObjects::allocate(object.bytes);
    if (object.kind == plan::ObjectKind::packed_matmul) {
      const kernels::PackSources sources{bytes_of(object, 0), bytes_of(object, 1), bytes_of(object, 2)};
      kernels::pack_range(object.layout, sources, 0, object.layout.source_bytes, memory.get());
    } else {
      for (size_t i = 0; i < object.sources.size(); ++i) {
        const uint64_t bytes = plan.model->payload(object.sources[i].payload).bytes();
        std::memcpy(memory.get() + object.sources[i].object_offset, bytes_of(object, i), bytes);
      }
    }
    table.objects.push_back(std::move(memory));
  }
  return table;
}

void attach(Frame& frame) {
  const auto held = [](uint64_t bytes) -> HeldBytes {
    auto memory = MemoryObjects::allocate(bytes);
    return {memory.get(), bytes, memory};
  };
  std::vector<HeldBytes> outputs;
  for (const uint64_t bytes : frame.output_bytes()) outputs.push_back(bytes == 0 ? HeldBytes{} : held(bytes));
  frame.attach(held(frame.execution_bytes()), outputs);
}

Status run_bound(Frame& frame, const plan::PreparedExecutionPlan& plan, RuntimeContext& context,
                 const ObjectTable& objects, TileRunner& runner) {
  attach(frame);
  Status status = ok_status();
  const auto end = plan::SegmentId(plan.segments.size());
  for (plan::SegmentId i = 0; status && i < end;) {
    status = frame.run_segment(i, objects, runner);
    const MemoryWanted wanted = frame.wanted();
    if (status && wanted.bytes > 0) {
      REQUIRE(frame.may_grow(i));
      auto memory = MemoryObjects::allocate(wanted.least);
      const HeldBytes held{memory.get(), wanted.least, memory};
      wanted.output < 0 ? frame.grow(held) : frame.give_output(wanted.output, held);
    } else {
      i = plan.after(i, frame.chosen());
    }
  }
  if (status) frame.finish(context);
  frame.detach();
  return status;
}

Status run(Graph& graph, RuntimeContext& context, const plan::PlanOptions& options) {
  const auto plan = graph.plan(options);
  const MemoryObjects objects = graph.prepare(*plan);
  Frame frame(plan, 1);
  if (Status status = frame.bind(context); !status) return status;
  SerialTileRunner runner;
  return run_bound(frame, *plan, context, objects, runner);
}

std::vector<float> run_floats(Graph& graph, std::vector<NamedTensor> inputs, const plan::PlanOptions& options) {
  RuntimeContext context;
  context.inputs = std::move(inputs);
  const Status status = run(graph, context, options);
  REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message()));
  REQUIRE(context.output("y") != nullptr);
  return elements_of<float>(*context.output("y"));
}

}  // namespace ompipe::exec::testing
