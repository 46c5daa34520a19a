// Small graphs built in memory, and their runs: plan, objects without files, execution block, outputs.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ompipe/exec/frame.h"
#include "ompipe/model/resolver.h"
#include "ompipe/plan/plan.h"

namespace ompipe::exec::testing {

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr model::DType value = model::DType::f32;
};
template <>
struct DTypeOf<_Float16> {
  static constexpr model::DType value = model::DType::f16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr model::DType value = model::DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr model::DType value = model::DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr model::DType value = model::DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr model::DType value = model::DType::boolean;
};

using Ids = std::vector<model::ValueId>;

// Every object of a plan, prepared at once, in its own layout. Fails a test that asks for a layout before the bytes.
class MemoryObjects : public ObjectTable {
 public:
  const std::byte* bytes(plan::ObjectId object) const override {
    asked_ = object;
    return objects[size_t(object)].get();
  }
  bool narrow(plan::ObjectId object) const override;
  // Aligned at 64.
  static std::shared_ptr<std::byte> allocate(uint64_t bytes);
  std::vector<std::shared_ptr<std::byte>> objects;

 private:
  mutable plan::ObjectId asked_ = plan::kNone;
};

class Graph {
 public:
  Graph();
  // A dimension of -1 is a symbol of its own.
  model::ValueId input(const std::string& name, model::DType dtype, const std::vector<int64_t>& dims);
  model::ValueId shaped_input(const std::string& name, model::DType dtype, model::SymbolicShape shape);
  template <class T>
  model::ValueId constant(const std::vector<int64_t>& dims, const std::vector<T>& elements) {
    return constant(DTypeOf<T>::value, dims, elements.data(), elements.size() * sizeof(T));
  }
  model::ValueId truth(bool value) { return constant(model::DType::boolean, {}, &value, 1); }
  // Bytes of a file: prepared, not known to resolution.
  template <class T>
  model::ValueId weight(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& elements,
                        bool overridable = false) {
    return weight(name, DTypeOf<T>::value, dims, elements.data(), elements.size() * sizeof(T), overridable);
  }
  model::ValueId weight(const std::string& name, model::DType dtype, const std::vector<int64_t>& dims, const void* data,
                        size_t bytes, bool overridable);

  // Another tensor over the bytes of a weight.
  model::ValueId reshaped(model::ValueId weight, const std::string& name, const std::vector<int64_t>& dims);

  Ids node(const std::string& op, const Ids& inputs, int outputs = 1, std::vector<model::Attribute> attributes = {},
           const std::string& domain = {});
  model::ValueId op(const std::string& name, const Ids& inputs, std::vector<model::Attribute> attributes = {}) {
    return node(name, inputs, 1, std::move(attributes))[0];
  }
  // An If or Loop, whose graphs follow: begin and end for each of them, then close. Nodes made in between stand in
  // them.
  Ids flow(const std::string& op, const Ids& inputs, int outputs);
  // Returns the graph's inputs, of these types.
  Ids begin(const std::string& attribute, const std::vector<model::DType>& inputs = {});
  void end(const Ids& outputs);
  void close() { open_.pop_back(); }

  // The output of its node gets no name: an optional one that the graph doesn't use.
  void make_absent(model::ValueId output);
  void output(const std::string& name, model::ValueId value);

  // Resolves and plans; a failure fails the test.
  std::shared_ptr<const plan::PreparedExecutionPlan> plan(const plan::PlanOptions& options = {});
  MemoryObjects prepare(const plan::PreparedExecutionPlan& plan) const;

  int64_t opset = 17;

 private:
  model::ValueId constant(model::DType dtype, const std::vector<int64_t>& dims, const void* data, size_t bytes);
  model::ValueId value(const std::string& name, model::ValueSource source);
  model::ModelGraph graph_;
  std::vector<model::NodeId> open_;                      // flow nodes whose graphs are being made
  model::SubgraphId current_ = model::kNone;             // that nodes are added to
  std::map<std::string, std::vector<std::byte>> bytes_;  // of payloads, by name
};

template <class T>
NamedTensor feed(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& elements) {
  auto owner = std::make_shared<std::vector<T>>(elements);
  return {name, {make_tensor(DTypeOf<T>::value, dims, reinterpret_cast<std::byte*>(owner->data())), owner}};
}

template <class T>
std::vector<T> elements_of(const HeldTensor& tensor) {
  return std::vector<T>(tensor.view.read<T>(), tensor.view.read<T>() + tensor.view.elements());
}

// Gives a bound frame its memory: the execution block and the outputs' bytes, all filled with 0xFF (NaN).
void attach(Frame& frame);
// attach, every segment, finish, detach.
Status run_bound(Frame& frame, const plan::PreparedExecutionPlan& plan, RuntimeContext& context,
                 const ObjectTable& objects, TileRunner& runner);
// bind and run_bound in a frame of its own.
Status run(Graph& graph, RuntimeContext& context, const plan::PlanOptions& options = {});
inline NamedTensor feed_bool(const std::string& name, bool value) {
  auto owner = std::make_shared<uint8_t>(value);
  return {name, {make_tensor(model::DType::boolean, {}, reinterpret_cast<std::byte*>(owner.get())), owner}};
}

// The elements of output "y" of a graph run with these inputs.
std::vector<float> run_floats(Graph& graph, std::vector<NamedTensor> inputs, const plan::PlanOptions& options = {});

}  // namespace ompipe::exec::testing
