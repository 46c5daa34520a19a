#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "finish.h"
#include "objects.h"
#include "ompipe/arenas/prepared_arena.h"
#include "weights.h"

namespace ompipe::plan {
namespace {

constexpr uint64_t kMiB = 1u << 20;

// Builds in one pass over the nodes: operands, requirements, segments; bundles when a segment ends.
class Builder {
 public:
  Builder(std::shared_ptr<const model::ResolvedModel> model, const PlanOptions& options)
      : model_(*model),
        plan_(std::make_shared<PreparedExecutionPlan>()),
        table_(model_, plan_->options, plan_->objects) {
    plan_->model = std::move(model);
    plan_->options = options;
    if (options.device) plan_->device = options.device->backend->describe().behaviour;
    for (model::NodeId id = 0; id < model::NodeId(model_.nodes().size()); ++id) {
      const model::Placement& placement = model_.node(id).placement;
      OMPIPE_CHECK(!placement.on_device || options.device, "a node is on a device that the plan has not");
      if (!placement.refused.empty()) plan_->refused.push_back({id, placement.refused});
    }
  }

  Result<std::shared_ptr<const PreparedExecutionPlan>> build() {
    weights_.find(model_, table_);
    Status status = add_nodes(0, model::NodeId(model_.nodes().size()));
    if (status.ok()) status = end_segment();
    if (!status.ok()) return status.error();
    finish_plan(*plan_);
    return Result<std::shared_ptr<const PreparedExecutionPlan>>(std::move(plan_));
  }

 private:
  // An operand of the segment under way whose payload is small: bound when the segment's bundle is made.
  struct Small {
    ActionId action;
    size_t input;
    model::PayloadId payload;
  };
  struct Place {
    ObjectId object;
    uint64_t offset;
  };
  Status add_nodes(model::NodeId begin, model::NodeId end) {
    Status status = ok_status();
    for (model::NodeId id = begin; status.ok() && id < end; id = after_node(id, model_.nodes(), model_.graphs()))
      status = model_.node(id).is_flow() ? add_flow(id) : add_node(id);
    return status;
  }

  // The node's own action, which ends its segment, then its subgraphs as ranges.
  Status add_flow(model::NodeId id) {
    const model::Node& node = model_.node(id);
    const bool loop = node.kind() == model::OpKind::loop;
    const auto head = ActionId(plan_->actions.size());
    Status status = add_step({id, {}, loop ? Step::enter : Step::branch, kNone}, node.inputs, node.name);
    if (status.ok()) status = end_segment();
    const auto chooser = SegmentId(plan_->segments.size()) - 1;
    std::vector<RangeId> held;
    for (const char* name : {"then_branch", "else_branch", "body"}) {
      const model::SubgraphId graph = node.graph_attribute(name);
      if (!status.ok() || graph == model::kNone) continue;
      held.push_back(RangeId(plan_->ranges.size()));
      status = add_range(id, graph, head);
    }
    if (!status.ok()) return status;
    const auto behind = SegmentId(plan_->segments.size());
    if (loop) plan_->actions[size_t(head)].range = held[0];
    for (const RangeId range : held) {
      plan_->segments[size_t(chooser)].next.push_back(plan_->ranges[size_t(range)].begin);
      Segment& last = plan_->segments[size_t(plan_->ranges[size_t(range)].end) - 1];
      if (loop) last.next.push_back(plan_->ranges[size_t(range)].begin);
      last.next.push_back(behind);
      last.join = behind;
    }
    if (loop) plan_->segments[size_t(chooser)].next.push_back(behind);
    const bool certain = loop && model_.graph(plan_->ranges[size_t(held[0])].graph).certain;
    plan_->segments[size_t(chooser)].join = certain ? chooser + 1 : behind;
    return ok_status();
  }

  Status add_range(model::NodeId owner, model::SubgraphId id, ActionId head) {
    const model::Subgraph& graph = model_.graph(id);
    const model::Node& node = model_.node(owner);
    const auto range = RangeId(plan_->ranges.size());
    const bool loop = node.kind() == model::OpKind::loop;
    plan_->ranges.push_back({.name = node.name + "." + graph.name,
                             .owner = owner,
                             .graph = id,
                             .parent = range_,
                             .loop = loop,
                             .begin = SegmentId(plan_->segments.size()),
                             .end = 0,
                             .head = head,
                             .last = 0});
    // What a bundle made in here holds may never be read: nothing outside relies on it.
    const std::map<model::PayloadId, Place> outside = small_places_;
    const RangeId around = std::exchange(range_, range);
    Status status = add_nodes(graph.begin, graph.end);
    const auto last = ActionId(plan_->actions.size());
    if (status.ok()) {
      status = add_step({owner, {}, loop ? Step::repeat : Step::yield, range}, graph.outputs,
                        plan_->ranges[size_t(range)].name + ".end");
    }
    if (status.ok()) status = end_segment();
    range_ = around;
    small_places_ = outside;
    plan_->ranges[size_t(range)].last = last;
    plan_->ranges[size_t(range)].end = SegmentId(plan_->segments.size());
    return status;
  }

  // An action of a flow node, with these values as its operands.
  Status add_step(Action action, const std::vector<model::ValueId>& values, const std::string& name) {
    std::vector<Small> smalls;
    std::set<ObjectId> large;
    taken_inputs_ = 0;
    action.inputs.resize(values.size());
    Status status = ok_status();
    const model::Node& node = model_.node(action.node);
    for (size_t i = 0; status.ok() && i < values.size(); ++i)
      status = bind_input(node, i, values[i], action, large, smalls);
    return status.ok() ? append(std::move(action), large, smalls, name) : status;
  }

  Status add_node(model::NodeId id) {
    const model::Node& node = model_.node(id);
    Action action{id, std::vector<Operand>(node.inputs.size()), Step::node, kNone};
    std::vector<Small> smalls;
    std::set<ObjectId> large;
    Status status = bind_weights(node, action, large);
    for (size_t i = 0; status.ok() && i < node.inputs.size(); ++i)
      status = bind_input(node, i, node.inputs[i], action, large, smalls);
    return status.ok() ? append(std::move(action), large, smalls, node.name) : status;
  }

  // Adds the action to the segment under way, or to a new one if that would need too much.
  Status append(Action action, const std::set<ObjectId>& large, const std::vector<Small>& smalls,
                const std::string& name) {
    std::set<ObjectId> together = segment_objects_;
    together.insert(large.begin(), large.end());
    const bool too_many = together.size() > size_t(plan_->options.max_large_objects) && !segment_objects_.empty();
    const bool begun = plan_->actions.size() > size_t(segment_begin_);
    if (too_many || (begun && (segment_on_device_ != action.on_device || !fits_device(together) ||
                               !fits_prepared(together, smalls)))) {
      if (Status status = end_segment(); !status.ok()) return status;
    }
    segment_on_device_ = action.on_device;
    segment_objects_.insert(large.begin(), large.end());
    smalls_.insert(smalls_.end(), smalls.begin(), smalls.end());
    for (const Small& small : smalls) count_small(small, segment_smalls_);
    plan_->actions.push_back(std::move(action));
    plan_->device_actions += plan_->actions.back().on_device;
    if (plan_->actions.size() == size_t(segment_begin_) + 1) segment_name_ = name;
    return ok_status();
  }

  // Whether the objects' bytes on the device fit there together.
  bool fits_device(const std::set<ObjectId>& objects) const {
    uint64_t bytes = 0;
    for (ObjectId id : objects) bytes += gang_of(plan_->objects[size_t(id)]).device_bytes;
    return bytes == 0 || bytes <= plan_->options.device->memory_bytes;
  }

  // What a segment's small payloads take: their own bundle, at most, and earlier ones.
  struct Smalls {
    std::set<ObjectId> bundles;
    std::set<model::PayloadId> fresh;
    uint64_t fresh_bytes = 0;
  };
  void count_small(const Small& small, Smalls& smalls) const {
    const auto place = small_places_.find(small.payload);
    if (place != small_places_.end()) {
      smalls.bundles.insert(place->second.object);
    } else if (smalls.fresh.insert(small.payload).second) {
      smalls.fresh_bytes += ObjectTable::bundled_bytes(model_.payload(small.payload).bytes());
    }
  }

  // Whether the segment under way, with these objects and small payloads of one more node, may be resident as a whole.
  bool fits_prepared(const std::set<ObjectId>& large, const std::vector<Small>& smalls) const {
    if (plan_->options.prepared_bytes == UINT64_MAX) return true;
    Smalls all = segment_smalls_;
    for (const Small& small : smalls) count_small(small, all);
    all.bundles.insert(large.begin(), large.end());
    uint64_t bytes = all.fresh.empty() ? 0 : arenas::PreparedArena::rounded_bytes(all.fresh_bytes);
    for (ObjectId id : all.bundles) bytes += gang_of(plan_->objects[size_t(id)]).prepared_bytes;
    return bytes <= plan_->options.prepared_bytes;
  }

  // Inputs that a packed object takes the place of.
  Status bind_weights(const model::Node& node, Action& action, std::set<ObjectId>& large) {
    taken_inputs_ = 0;
    size_t input = 1;
    WeightSources weight;
    const model::Node* owner = &node;
    switch (node.kind()) {
      case model::OpKind::mat_mul_nbits: {
        Result<WeightSources> found = nbits_weight(node, model_.values());
        if (!found.ok()) return found.error();
        weight = *std::move(found);
        taken_inputs_ = 1u << 1 | 1u << 2 | 1u << 3;
        break;
      }
      case model::OpKind::mat_mul_integer: {
        Result<WeightSources> found = integer_weight(node, model_.values());
        if (!found.ok()) return found.error();
        weight = *std::move(found);
        taken_inputs_ = 1u << 1;
        break;
      }
      case model::OpKind::gather_block_quantized:
        if (const Weight* shared = weights_.of_table(node)) {
          weight = shared->of;
          owner = &model_.node(shared->node);
          input = 0;
          taken_inputs_ = 1u << 0 | 1u << 2 | 1u << 3;
        }
        break;
      default:
        weight = float_weight(node, model_.values());
        if (!weight.payloads.empty()) {
          taken_inputs_ = 1u << 1;
        } else if (const char* reason = why_unpacked_fails(node, model_.values())) {
          return Error{ErrorKind::bad_model, "plan", node.name, reason};
        }
    }
    if (node.placement.on_device && weight.payloads.empty())
      plan_->refused.push_back({action.node, "its weight became a constant of the graph"});
    if (weight.payloads.empty()) return ok_status();
    action.on_device = node.placement.on_device;
    Result<ObjectId> object = table_.packed(*owner, weight, action.on_device);
    if (!object.ok()) return object.error();
    action.inputs[input] = {Operand::Kind::packed, *object, 0, kNone};
    large.insert(*object);
    if (input == 0) {
      plan_->objects[size_t(*object)].row_addressable =
          std::all_of(weight.payloads.begin(), weight.payloads.end(),
                      [&](model::PayloadId id) { return model_.payload(id).encoding == model::Encoding::raw; });
    }
    return ok_status();
  }

  Status bind_input(const model::Node& node, size_t i, model::ValueId id, Action& action, std::set<ObjectId>& large,
                    std::vector<Small>& smalls) {
    Operand& operand = action.inputs[i];
    if ((i < 32 && (taken_inputs_ >> i & 1) != 0) || id == model::kNone) return ok_status();
    const model::Value& value = model_.value(id);
    operand.value = id;
    switch (value.source) {
      case model::ValueSource::node:
      case model::ValueSource::graph_input:
      case model::ValueSource::body_input:
        operand = {Operand::Kind::value, id, 0, id};
        return ok_status();
      case model::ValueSource::constant:
        operand = {Operand::Kind::constant, value.constant, 0, id};
        return ok_status();
      case model::ValueSource::initializer:
        operand.kind = Operand::Kind::source;
        break;
      case model::ValueSource::overridable:
        operand.kind = Operand::Kind::overridable;
        break;
    }
    const auto action_id = ActionId(plan_->actions.size());
    if (model_.payload(value.payload).bytes() < plan_->options.bundle_limit_bytes) {
      smalls.push_back({action_id, i, value.payload});
      return ok_status();
    }
    Result<ObjectId> object = table_.source_form(node, i, value.payload);
    if (!object.ok()) return object.error();
    operand.index = *object;
    large.insert(*object);
    return ok_status();
  }

  // Closes the segment under way: its bundle is made, and the operands that lie in it, or in an earlier segment's, are
  // bound.
  Status end_segment() {
    const auto end = ActionId(plan_->actions.size());
    if (end == segment_begin_) return ok_status();
    std::vector<model::PayloadId> fresh;
    for (const Small& small : smalls_) {
      if (!small_places_.count(small.payload) && std::find(fresh.begin(), fresh.end(), small.payload) == fresh.end()) {
        fresh.push_back(small.payload);
      }
    }
    if (!fresh.empty()) {
      std::map<model::PayloadId, uint64_t> offsets;
      Result<ObjectId> object = table_.bundle(fmt::format("bundle.{}", plan_->segments.size()), fresh, offsets);
      if (!object.ok()) return object.error();
      for (auto [payload, offset] : offsets) small_places_[payload] = {*object, offset};
    }
    for (const Small& small : smalls_) {
      const Place place = small_places_.at(small.payload);
      Operand& operand = plan_->actions[size_t(small.action)].inputs[small.input];
      operand.index = place.object;
      operand.offset = place.offset;
      segment_objects_.insert(place.object);
    }
    Segment segment;
    segment.name = segment_name_;
    segment.begin = segment_begin_;
    segment.end = end;
    segment.on_device = segment_on_device_;
    segment.requirements.assign(segment_objects_.begin(), segment_objects_.end());
    if (range_ == kNone) segment.rows = row_accesses(end);
    segment.range = range_;
    plan_->segments.push_back(std::move(segment));
    segment_begin_ = end;
    segment_objects_.clear();
    smalls_.clear();
    segment_smalls_ = {};
    return ok_status();
  }

  // Tables that one action of the segment under way gathers rows from, by a graph input.
  std::vector<RowAccess> row_accesses(ActionId end) const {
    std::map<ObjectId, int> uses;
    std::vector<RowAccess> found;
    for (ActionId a = segment_begin_; a < end; ++a) {
      const Action& action = plan_->actions[size_t(a)];
      const model::Node& node = model_.node(action.node);
      const bool gathers =
          (node.kind() == model::OpKind::gather && node.int_attribute("axis", 0) == 0) ||
          (node.kind() == model::OpKind::gather_block_quantized && node.int_attribute("gather_axis", 0) == 0);
      for (size_t i = 0; i < action.inputs.size(); ++i) {
        const Operand& operand = action.inputs[i];
        const bool whole = operand.kind == Operand::Kind::source || operand.kind == Operand::Kind::packed;
        if (!whole && operand.kind != Operand::Kind::overridable) continue;
        ++uses[operand.index];
        const bool named = gathers && model_.value(node.inputs[1]).source == model::ValueSource::graph_input;
        if (named && whole && plan_->objects[size_t(operand.index)].row_addressable)
          found.push_back({operand.index, node.inputs[1], model_.value(node.inputs[i]).dims()[0]});
      }
    }
    std::erase_if(found, [&](const RowAccess& access) { return uses[access.object] > 1; });
    return found;
  }

  const model::ResolvedModel& model_;
  std::shared_ptr<PreparedExecutionPlan> plan_;
  ObjectTable table_;
  SharedWeights weights_;
  uint32_t taken_inputs_ = 0;  // of the node under way, a bit each: inside its packed object
  ActionId segment_begin_ = 0;
  std::string segment_name_;
  bool segment_on_device_ = false;
  std::set<ObjectId> segment_objects_;
  std::vector<Small> smalls_;
  Smalls segment_smalls_;  // what these take
  std::map<model::PayloadId, Place> small_places_;
  RangeId range_ = kNone;  // that is under way
};

}  // namespace

Result<std::shared_ptr<const PreparedExecutionPlan>> build_plan(std::shared_ptr<const model::ResolvedModel> model,
                                                                const PlanOptions& options) {
  if (options.chunk_bytes == 0 || options.chunk_bytes % kMiB != 0) {
    return Error{ErrorKind::usage, "plan", "chunk",
                 fmt::format("{} bytes; expected a positive multiple of 1 MiB", options.chunk_bytes)};
  }
  if (const char* const expected = kernels::tuning_error(options.tuning)) {
    return Error{ErrorKind::usage, "plan", "tuning", expected};
  }
  return Builder(std::move(model), options).build();
}

}  // namespace ompipe::plan
