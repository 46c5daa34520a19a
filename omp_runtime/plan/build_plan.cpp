#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "objects.h"
#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/prepared_arena.h"
#include "ompipe/device/arena.h"
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
    const auto nodes = model::NodeId(model_.nodes().size());
    find_weights();
    for (model::NodeId id = 0; id < nodes; ++id) {
      Status status = add_node(id);
      if (status.ok() && id + 1 == nodes) status = end_segment();
      if (!status.ok()) return status.error();
    }
    finish_uses();
    finish_lives();
    finish_crossings();
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
  // What a MatMulNBits multiplies by.
  struct Weight {
    model::NodeId node;
    WeightSources of;
  };

  Status add_node(model::NodeId id) {
    const model::Node& node = model_.node(id);
    Action action{id, std::vector<Operand>(node.inputs.size())};
    std::vector<Small> smalls;
    std::set<ObjectId> large;
    Status status = bind_weights(node, action, large);
    for (size_t i = 0; status.ok() && i < node.inputs.size(); ++i) status = bind_input(node, i, action, large, smalls);
    if (!status.ok()) return status;

    std::set<ObjectId> together = segment_objects_;
    together.insert(large.begin(), large.end());
    const bool too_many = together.size() > size_t(plan_->options.max_large_objects) && !segment_objects_.empty();
    const bool begun = plan_->actions.size() > size_t(segment_begin_);
    if (too_many || (begun && (segment_on_device_ != action.on_device || !fits_device(together)))) {
      if (status = end_segment(); !status.ok()) return status;
    }
    segment_on_device_ = action.on_device;
    segment_objects_.insert(large.begin(), large.end());
    smalls_.insert(smalls_.end(), smalls.begin(), smalls.end());
    plan_->actions.push_back(std::move(action));
    plan_->device_actions += plan_->actions.back().on_device;
    if (plan_->actions.size() == size_t(segment_begin_) + 1) segment_name_ = node.name;
    return ok_status();
  }

  // Whether the objects' bytes on the device fit there together.
  bool fits_device(const std::set<ObjectId>& objects) const {
    uint64_t bytes = 0;
    for (ObjectId id : objects) bytes += gang_of(plan_->objects[size_t(id)]).device_bytes;
    return bytes == 0 || bytes <= plan_->options.device->memory_bytes;
  }

  // Every packed 4-bit weight, by what its bytes are: a table earlier in the sequence may be the same bytes. What is
  // wrong with a weight is said when its node's turn comes.
  void find_weights() {
    for (model::NodeId id = 0; id < model::NodeId(model_.nodes().size()); ++id) {
      if (model_.node(id).kind() != model::OpKind::mat_mul_nbits) continue;
      Result<WeightSources> weight = nbits_weight(model_.node(id), model_.values());
      if (!weight.ok()) continue;
      const std::string lineage = table_.lineage(weight->payloads);
      weights_.try_emplace(lineage, Weight{id, *std::move(weight)});
    }
  }

  // The weight that a GatherBlockQuantized's table is, row for column; null if there is none.
  const Weight* weight_of_table(const model::Node& node) const {
    std::vector<model::PayloadId> sources;
    for (size_t i : {size_t(0), size_t(2), size_t(3)}) {
      if (i >= node.inputs.size() || node.inputs[i] == model::kNone) continue;
      const model::Value& value = model_.value(node.inputs[i]);
      if (value.source != model::ValueSource::initializer) return nullptr;
      sources.push_back(value.payload);
    }
    const auto found = weights_.find(table_.lineage(sources));
    if (found == weights_.end()) return nullptr;
    const kernels::MatMulSpec& spec = found->second.of.spec;
    const model::Shape dims = model_.value(node.inputs[0]).dims();
    const int64_t blocks = (spec.k + spec.block - 1) / spec.block;
    const bool same = dims == model::Shape{spec.n, blocks * spec.block / 2} &&
                      spec.block == node.int_attribute("block_size", 128) && spec.scale_type == kernels::ScaleType::f32;
    return same ? &found->second : nullptr;
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
      case model::OpKind::gather_block_quantized:
        if (const Weight* shared = weight_of_table(node)) {
          weight = shared->of;
          owner = &model_.node(shared->node);
          input = 0;
          taken_inputs_ = 1u << 0 | 1u << 2 | 1u << 3;
        }
        break;
      default:
        weight = float_weight(node, model_.values());
        if (!weight.payloads.empty()) taken_inputs_ = 1u << 1;
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

  Status bind_input(const model::Node& node, size_t i, Action& action, std::set<ObjectId>& large,
                    std::vector<Small>& smalls) {
    Operand& operand = action.inputs[i];
    if ((i < 32 && (taken_inputs_ >> i & 1) != 0) || node.inputs[i] == model::kNone) return ok_status();
    const model::Value& value = model_.value(node.inputs[i]);
    operand.value = node.inputs[i];
    switch (value.source) {
      case model::ValueSource::node:
      case model::ValueSource::graph_input:
        operand = {Operand::Kind::value, node.inputs[i], 0, node.inputs[i]};
        return ok_status();
      case model::ValueSource::constant:
        operand = {Operand::Kind::constant, value.constant, 0, node.inputs[i]};
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
    segment.rows = row_accesses(end);
    plan_->segments.push_back(std::move(segment));
    segment_begin_ = end;
    segment_objects_.clear();
    smalls_.clear();
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

  void finish_uses() {
    for (SegmentId s = 0; s < SegmentId(plan_->segments.size()); ++s) {
      Gang gang;
      for (ObjectId id : plan_->segments[size_t(s)].requirements) {
        plan_->objects[size_t(id)].uses.push_back(s);
        gang += gang_of(plan_->objects[size_t(id)]);
      }
      plan_->gangs.push_back(gang);
      plan_->largest_gang.prepared_bytes = std::max(plan_->largest_gang.prepared_bytes, gang.prepared_bytes);
      plan_->largest_gang.staging_bytes = std::max(plan_->largest_gang.staging_bytes, gang.staging_bytes);
      plan_->largest_gang.device_bytes = std::max(plan_->largest_gang.device_bytes, gang.device_bytes);
      plan_->largest_gang.objects = std::max(plan_->largest_gang.objects, gang.objects);
    }
    for (const PreparedObject& object : plan_->objects) {
      plan_->packed_bytes += gang_of(object).prepared_bytes;
      if (object.recipe != Recipe::on_cpu) plan_->device_bytes += device::Arena::rounded_bytes(object.bytes);
      plan_->source_bytes += object.source_bytes;
    }
  }

  void finish_lives() {
    plan_->lives.resize(model_.values().size());
    for (ActionId a = 0; a < ActionId(plan_->actions.size()); ++a) {
      const model::Node& node = model_.node(plan_->actions[size_t(a)].node);
      for (model::ValueId output : node.outputs) {
        if (output != model::kNone) plan_->lives[size_t(output)].defined = a;
      }
      for (model::ValueId input : node.inputs) {
        if (input != model::kNone) plan_->lives[size_t(input)].last_use = a;
      }
    }
    for (const model::Port& port : model_.outputs()) plan_->lives[size_t(port.value)].output = true;
  }

  // What segments on the device are given and give: an input that comes from outside, once each; an output that
  // somebody outside needs.
  void finish_crossings() {
    for (Segment& segment : plan_->segments) {
      if (!segment.on_device) continue;
      std::set<model::ValueId> there;
      for (ActionId a = segment.begin; a < segment.end; ++a) {
        const Action& action = plan_->actions[size_t(a)];
        const model::Node& node = model_.node(action.node);
        if (there.insert(node.inputs[0]).second) segment.uploads.push_back({a, 0});
        there.insert(node.outputs[0]);
        const ValueLife& life = plan_->lives[size_t(node.outputs[0])];
        if (life.output || life.last_use >= segment.end) segment.readbacks.push_back({a, 0});
      }
    }
  }

  const model::ResolvedModel& model_;
  std::shared_ptr<PreparedExecutionPlan> plan_;
  ObjectTable table_;
  std::map<std::string, Weight> weights_;  // by the lineage of their sources
  uint32_t taken_inputs_ = 0;              // of the node under way, a bit each: inside its packed object
  ActionId segment_begin_ = 0;
  std::string segment_name_;
  bool segment_on_device_ = false;
  std::set<ObjectId> segment_objects_;
  std::vector<Small> smalls_;
  std::map<model::PayloadId, Place> small_places_;
};

}  // namespace

Gang& Gang::operator+=(const Gang& other) {
  prepared_bytes += other.prepared_bytes;
  staging_bytes += other.staging_bytes;
  device_bytes += other.device_bytes;
  objects += other.objects;
  return *this;
}

Gang gang_of(const PreparedObject& object) {
  Gang gang;
  switch (object.recipe) {
    case Recipe::on_cpu:
      gang.prepared_bytes = arenas::PreparedArena::rounded_bytes(object.bytes);
      break;
    case Recipe::pack_upload:
      gang.staging_bytes = arenas::BlockArena::rounded_bytes(object.bytes);
      break;
    case Recipe::upload_pack:
      gang.device_bytes = device::Arena::rounded_bytes(object.device_source_bytes);
      break;
  }
  if (object.recipe != Recipe::on_cpu) gang.device_bytes += device::Arena::rounded_bytes(object.bytes);
  if (object.aux_staging_bytes > 0) gang.staging_bytes += arenas::BlockArena::rounded_bytes(object.aux_staging_bytes);
  if (object.chunk_staging_bytes > 0)
    gang.staging_bytes += arenas::BlockArena::rounded_bytes(object.chunk_staging_bytes);
  gang.objects = 1;
  return gang;
}

SegmentId PreparedExecutionPlan::next_use(ObjectId object, SegmentId from) const {
  const std::vector<SegmentId>& uses = objects[size_t(object)].uses;
  const auto next = std::lower_bound(uses.begin(), uses.end(), from);
  return next == uses.end() ? kNone : *next;
}

const model::Payload& PreparedExecutionPlan::source_payload(ObjectId object, size_t source) const {
  return model->payload(objects[size_t(object)].sources[source].payload);
}

Result<std::shared_ptr<const PreparedExecutionPlan>> build_plan(std::shared_ptr<const model::ResolvedModel> model,
                                                                const PlanOptions& options) {
  if (options.chunk_bytes == 0 || options.chunk_bytes % kMiB != 0) {
    return Error{ErrorKind::usage, "plan", "chunk",
                 fmt::format("{} bytes; expected a positive multiple of 1 MiB", options.chunk_bytes)};
  }
  return Builder(std::move(model), options).build();
}

}  // namespace ompipe::plan
