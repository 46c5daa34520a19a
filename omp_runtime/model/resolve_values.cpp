// The steps of resolution that look at values: small constants, dtypes and shapes, folding.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "facts.h"
#include "infer_flow.h"
#include "ompipe/io/posix_device.h"
#include "ompipe/model/decode.h"
#include "ompipe/model/resolver.h"

namespace ompipe::model {
namespace {

// Reads a few bytes of a file whose range has been checked, and makes sure that it is still the file that was opened.
Result<std::vector<uint8_t>> read_small(const SourceFile& file, const Payload& payload) {
  auto fail = [&](std::string reason, uint64_t got, int errno_value) {
    return Error{.kind = ErrorKind::environment,
                 .phase = "resolve",
                 .subject = payload.name,
                 .reason = std::move(reason),
                 .file = file.path,
                 .offset = payload.offset,
                 .length = payload.length,
                 .got = got,
                 .errno_value = errno_value};
  };
  std::vector<uint8_t> bytes(payload.length);
  io::PosixDevice device;
  size_t done = 0;
  while (done < bytes.size()) {
    const auto rest = std::as_writable_bytes(std::span(bytes).subspan(done));
    const ssize_t got = device.read(*file.handle, payload.offset + done, rest, io::ReadMode::buffered);
    if (got == -EINTR) continue;
    if (got < 0) return fail("constant can't be read", done, int(-got));
    if (got == 0) return fail("the file ends early", done, 0);
    done += size_t(got);
  }
  if (const Status same = file.handle->check_unchanged(); !same) return same.error();
  return bytes;
}

bool is_weight_consumer(OpKind kind) {
  switch (kind) {
    case OpKind::mat_mul_nbits:
    case OpKind::group_query_attention:
    case OpKind::gather_block_quantized:
    case OpKind::mat_mul:
    case OpKind::gemm:
    case OpKind::mat_mul_integer:
      return true;
    default:
      return false;
  }
}

SymbolicShape symbolic_shape(const TensorFact& fact, const SymbolTable& symbols) {
  SymbolicShape shape(fact.rank);
  for (size_t i = 0; i < shape.size(); ++i) {
    const Extent dim = fact.dims[i];
    if (dim.known()) {
      shape[i].value = dim.value;
    } else if (dim.symbol != Extent::kUnknown) {
      shape[i].symbol = symbols.name(dim.symbol);
    }
  }
  return shape;
}

}  // namespace

// Shapes are computed from integers; scalars beside the graph cost nothing to read and spare every run an object.
// Weights are neither, however small.
bool Resolver::is_small_constant(ValueId id, OpKind consumer) const {
  const Value& value = data_.values[size_t(id)];
  if (value.source != ValueSource::initializer || value.payload == kNone || is_weight_consumer(consumer)) return false;
  const int64_t count = element_count(value.dims());
  const bool shape_type = value.dtype == DType::i64 || value.dtype == DType::i32 || value.dtype == DType::boolean;
  if (shape_type) return count <= int64_t(kMaxFollowedElements);
  return count == 1 && data_.payloads[size_t(value.payload)].file == 0;
}

Status Resolver::read_constant(ValueId id) {
  Value& value = data_.values[size_t(id)];
  const Payload& payload = data_.payloads[size_t(value.payload)];
  ConstantTensor constant{.dtype = value.dtype, .dims = value.dims(), .bytes = {}};
  if (const int32_t before = read_as_[size_t(value.payload)]; before != kNone) {
    constant.bytes = data_.constants[size_t(before)].bytes;
  } else {
    auto bytes = read_small(data_.files[size_t(payload.file)], payload);
    if (!bytes) return bytes.error();
    data_.resolve_read_bytes += payload.length;
    if (payload.encoding == Encoding::packed_varint) {
      const uint64_t count = uint64_t(element_count(constant.dims));
      constant.bytes.resize(count * dtype_bytes(value.dtype));
      const Status decoded = decode_varints(*bytes, value.dtype, count, constant.bytes.data(), value.name);
      if (!decoded) return decoded;
    } else {
      constant.bytes = std::move(*bytes);
    }
    payload_read_[size_t(value.payload)] = 1;
    read_as_[size_t(value.payload)] = int32_t(data_.constants.size());
  }
  value.source = ValueSource::constant;
  value.constant = int32_t(data_.constants.size());
  data_.constants.push_back(std::move(constant));
  return ok_status();
}

Status Resolver::read_small_constants() {
  std::vector<uint8_t> weight(data_.values.size(), 0);
  for (const Node& node : data_.nodes) {
    if (!is_weight_consumer(node.kind())) continue;
    for (ValueId input : node.inputs) {
      if (input != kNone) weight[size_t(input)] = 1;
    }
  }
  for (const Node& node : data_.nodes) {
    for (ValueId input : node.inputs) {
      if (input == kNone || weight[size_t(input)] || !is_small_constant(input, node.kind())) continue;
      if (Status read = read_constant(input); !read) return read;
    }
  }
  return ok_status();
}

Status Resolver::infer_and_fold() {
  SymbolTable symbols;
  ContentsPool pool;
  std::vector<TensorFact> facts(data_.values.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    const Value& value = data_.values[i];
    if (value.source == ValueSource::node || value.source == ValueSource::body_input) continue;
    facts[i] = fact_of_shape(value.dtype, value.shape, value.has_shape, &symbols);
    if (value.source == ValueSource::constant) set_contents(data_.constants[size_t(value.constant)], pool, facts[i]);
  }
  InferContext context(facts.data(), &symbols, pool);
  std::vector<ValueId> alias(data_.values.size(), kNone);
  FlowInference inference(context, facts.data(), data_.nodes, data_.graphs, data_.values);
  if (const NodeId wrong = inference.run(0, NodeId(data_.nodes.size())); wrong != kNone) {
    const Node& node = data_.nodes[size_t(wrong)];
    return Error{.kind = ErrorKind::bad_model,
                 .phase = "resolve",
                 .subject = node.name,
                 .reason = fmt::format("{}: {}", node.op_type, context.reason())};
  }
  for (Subgraph& graph : data_.graphs) {
    if (graph.owner == kNone) continue;
    const Node& owner = data_.nodes[size_t(graph.owner)];
    graph.certain = owner.kind() == OpKind::loop && loop_bounds(owner, graph, facts.data()).starts;
    for (ValueId input : graph.inputs) keep_inferred(input, facts, symbols);
  }
  for (const Node& node : data_.nodes) {
    for (ValueId id : node.outputs) {
      if (id != kNone) keep_inferred(id, facts, symbols);
    }
    if (node.inputs.empty()) continue;
    // A cast to the type that is there already passes its input on.
    const ValueId input = node.inputs[0], output = node.outputs[0];
    if (node.kind() == OpKind::cast && output != kNone && facts[size_t(input)].dtype == facts[size_t(output)].dtype) {
      alias[size_t(output)] = input;
    }
  }
  forward_uses(alias);
  return check_outputs(facts, symbols);
}

void Resolver::keep_inferred(ValueId id, const std::vector<TensorFact>& facts, const SymbolTable& symbols) {
  const TensorFact& fact = facts[size_t(id)];
  Value& value = data_.values[size_t(id)];
  value.dtype = fact.dtype;
  value.has_shape = fact.has_shape;
  value.shape = fact.has_shape ? symbolic_shape(fact, symbols) : SymbolicShape();
  if (!is_integer(fact.dtype) || !fact.shape_known() || !fact.contents_known()) return;
  ConstantTensor folded{.dtype = fact.dtype, .dims = {}, .bytes = {}};
  for (int i = 0; i < fact.rank; ++i) folded.dims.push_back(fact.dims[size_t(i)].value);
  const size_t width = dtype_bytes(fact.dtype);
  folded.bytes.resize(fact.content_count * width);
  for (uint32_t i = 0; i < fact.content_count; ++i) {
    store_element(uint64_t(fact.contents[i].value), fact.dtype, folded.bytes.data() + i * width);
  }
  value.source = ValueSource::constant;
  value.constant = int32_t(data_.constants.size());
  value.producer = kNone;
  data_.constants.push_back(std::move(folded));
}

Status Resolver::check_outputs(const std::vector<TensorFact>& facts, const SymbolTable& symbols) {
  for (Port& output : data_.outputs) {
    const TensorFact& fact = facts[size_t(output.value)];
    if (output.dtype != DType::undefined && output.dtype != fact.dtype) {
      return Error{.kind = ErrorKind::bad_model,
                   .phase = "resolve",
                   .subject = output.name,
                   .reason = fmt::format("output is {}, the model declares {}", dtype_name(fact.dtype),
                                         dtype_name(output.dtype))};
    }
    output.dtype = fact.dtype;
    if (!fact.has_shape) continue;
    const bool fits = !output.has_shape || output.shape.size() == fact.rank;
    if (!fits) {
      data_.notes.push_back(fmt::format("output {} has shape {}, the model declares {}", output.name,
                                        fact.shape_text(&symbols), shape_text(output.shape)));
    }
    // A declared symbol says more than an expression or nothing; a number that was inferred says more than a symbol.
    for (int i = 0; fits && output.has_shape && i < fact.rank; ++i) {
      if (fact.dims[size_t(i)].known()) output.shape[size_t(i)] = {.value = fact.dims[size_t(i)].value, .symbol = {}};
    }
    if (fits && output.has_shape) continue;
    output.shape = symbolic_shape(fact, symbols);
    output.has_shape = true;
  }
  return ok_status();
}

}  // namespace ompipe::model
