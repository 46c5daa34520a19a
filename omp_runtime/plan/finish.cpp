#include "finish.h"

#include <algorithm>
#include <set>

#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/prepared_arena.h"
#include "ompipe/device/arena.h"

namespace ompipe::plan {
namespace {

void find_uses(PreparedExecutionPlan& plan) {
  for (SegmentId s = 0; s < SegmentId(plan.segments.size()); ++s) {
    Gang gang;
    for (ObjectId id : plan.segments[size_t(s)].requirements) {
      plan.objects[size_t(id)].uses.push_back(s);
      gang += gang_of(plan.objects[size_t(id)]);
    }
    plan.gangs.push_back(gang);
    plan.largest_gang.prepared_bytes = std::max(plan.largest_gang.prepared_bytes, gang.prepared_bytes);
    plan.largest_gang.staging_bytes = std::max(plan.largest_gang.staging_bytes, gang.staging_bytes);
    plan.largest_gang.device_bytes = std::max(plan.largest_gang.device_bytes, gang.device_bytes);
    plan.largest_gang.objects = std::max(plan.largest_gang.objects, gang.objects);
  }
  for (const PreparedObject& object : plan.objects) {
    plan.packed_bytes += gang_of(object).prepared_bytes;
    if (object.recipe != Recipe::on_cpu) plan.device_bytes += device::Arena::rounded_bytes(object.bytes);
    plan.source_bytes += object.source_bytes;
  }
}

// A value that a Loop's body takes from outside is used in each pass: it lives until the last one ends. What the Loop
// carries lives as long, in the body's inputs.
void find_lives(PreparedExecutionPlan& plan) {
  const model::ResolvedModel& model = *plan.model;
  plan.lives.resize(model.values().size());
  for (ActionId a = 0; a < ActionId(plan.actions.size()); ++a) {
    const Action& action = plan.actions[size_t(a)];
    const model::Node& node = model.node(action.node);
    if (action.step == Step::enter) {
      const Range& body = plan.ranges[size_t(action.range)];
      for (model::ValueId input : model.graph(body.graph).inputs)
        plan.lives[size_t(input)] = {.defined = a, .last_use = body.last, .output = false};
    }
    if (action.step == Step::yield || action.step == Step::repeat) continue;
    // What an If or Loop gives is written at the ends of its ranges, whether somebody uses it or not.
    ActionId written = kNone;
    for (const Range& range : plan.ranges) written = range.head == a ? std::max(written, range.last) : written;
    for (model::ValueId output : node.outputs) {
      if (output != model::kNone) plan.lives[size_t(output)] = {.defined = a, .last_use = written, .output = false};
    }
  }
  std::vector<RangeId> loops;  // around the action that is looked at, the innermost last
  for (ActionId a = 0; a < ActionId(plan.actions.size()); ++a) {
    const Action& action = plan.actions[size_t(a)];
    const auto use = [&](model::ValueId value) {
      ValueLife& life = plan.lives[size_t(value)];
      ActionId last = a;
      for (const RangeId loop : loops) {
        const Range& body = plan.ranges[size_t(loop)];
        if (life.defined < body.head || life.defined == kNone) {
          last = body.last;
          break;
        }
      }
      life.last_use = std::max(life.last_use, last);
    };
    if (action.step == Step::node) {
      for (model::ValueId input : model.node(action.node).inputs) {
        if (input != model::kNone) use(input);
      }
    } else {
      for (const Operand& operand : action.inputs) {
        if (operand.kind != Operand::Kind::absent) use(operand.value);
      }
    }
    if (action.step == Step::enter) loops.push_back(action.range);
    if (action.step == Step::repeat) loops.pop_back();
  }
  for (const model::Port& port : model.outputs()) plan.lives[size_t(port.value)].output = true;
}

// Adds what the segments of [begin, end) need that run whenever the first of them does.
void add_needs(const PreparedExecutionPlan& plan, SegmentId begin, SegmentId end, std::set<ObjectId>& needs) {
  for (SegmentId s = begin; s < end; s = plan.join(s)) {
    const Segment& segment = plan.segments[size_t(s)];
    needs.insert(segment.requirements.begin(), segment.requirements.end());
    needs.insert(segment.either.begin(), segment.either.end());
  }
}

// Inner ranges first: an outer branch's needs contain theirs.
void find_certain(PreparedExecutionPlan& plan) {
  for (auto s = SegmentId(plan.segments.size()); s-- > 0;) {
    Segment& segment = plan.segments[size_t(s)];
    const Action& end = plan.actions[size_t(segment.end) - 1];
    if (end.step != Step::branch) continue;
    std::set<ObjectId> first, second;
    const SegmentId join = plan.join(s);
    add_needs(plan, segment.next[0], segment.next[1], first);
    add_needs(plan, segment.next[1], join, second);
    std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(segment.either));
  }
  std::set<ObjectId> certain;
  add_needs(plan, 0, SegmentId(plan.segments.size()), certain);
  for (ObjectId id = 0; id < ObjectId(plan.objects.size()); ++id)
    plan.objects[size_t(id)].certain = certain.contains(id);
}

// What segments on the device are given and give: an input that comes from outside, once each; an output that somebody
// outside needs.
void find_crossings(PreparedExecutionPlan& plan) {
  for (Segment& segment : plan.segments) {
    if (!segment.on_device) continue;
    std::set<model::ValueId> there;
    for (ActionId a = segment.begin; a < segment.end; ++a) {
      const model::Node& node = plan.model->node(plan.actions[size_t(a)].node);
      if (there.insert(node.inputs[0]).second) segment.uploads.push_back({a, 0});
      there.insert(node.outputs[0]);
      const ValueLife& life = plan.lives[size_t(node.outputs[0])];
      if (life.output || life.last_use >= segment.end) segment.readbacks.push_back({a, 0});
    }
  }
}

}  // namespace

void finish_plan(PreparedExecutionPlan& plan) {
  find_uses(plan);
  find_lives(plan);
  find_crossings(plan);
  if (plan.flows()) find_certain(plan);
}

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
      gang.staging_bytes = arenas::BlockArena::rounded_bytes(object.bytes);  // should the CPU have to pack it after all
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

SegmentId PreparedExecutionPlan::after(SegmentId segment, int32_t chosen) const {
  const std::vector<SegmentId>& next = segments[size_t(segment)].next;
  return next.empty() ? segment + 1 : next[size_t(chosen)];
}

SegmentId PreparedExecutionPlan::join(SegmentId segment) const {
  const SegmentId join = segments[size_t(segment)].join;
  return join == kNone ? segment + 1 : join;
}

}  // namespace ompipe::plan
