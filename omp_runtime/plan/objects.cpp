#include "objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace ompipe::plan {
namespace {

constexpr uint64_t kAlignment = 64;           // of everything inside a staging block or a bundle
constexpr uint64_t kCoalesceGapBytes = 4096;  // reading over a gap of a page costs less than another request
constexpr double kPrepackBytesPerNs = 6.0;    // source plus packed bytes; a prediction, not a claim

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool encoded(const model::Payload& payload) { return payload.encoding != model::Encoding::raw; }

// Places a payload's bytes in a staging block, and its decoded elements behind them where it has to be decoded.
Source place(const model::Payload& payload, model::PayloadId id, uint64_t& staging_bytes) {
  Source source;
  source.payload = id;
  source.staging_offset = source.decoded_offset = aligned(staging_bytes);
  staging_bytes = source.staging_offset + payload.length;
  if (encoded(payload)) {
    source.decoded_offset = aligned(staging_bytes);
    staging_bytes = source.decoded_offset + payload.bytes();
  }
  return source;
}

std::string key_of(const std::string& lineage, const std::string& layout_key, const std::string& device = "cpu") {
  return lineage + layout_key + "|" + device;
}

// Whether its scales can turn out to be float16.
bool may_be_narrow(const kernels::MatMulSpec& spec) {
  return spec.format == kernels::WeightFormat::nbits && spec.scale_type == kernels::ScaleType::f32;
}

// The key of a layout with float32 scales that are packed as float16 if each of them is one.
std::string undecided_key(std::string wide) {
  constexpr std::string_view kWide = "/s32/";
  const size_t at = wide.find(kWide);
  OMPIPE_CHECK(at != std::string::npos, wide.c_str());
  return wide.replace(at, kWide.size(), "/s32or16/");
}

Read whole_read(const model::Payload& payload, uint64_t staging_offset) {
  return {payload.file, payload.offset, payload.length, staging_offset};
}

}  // namespace

Result<const model::Payload*> ObjectTable::readable(model::PayloadId payload) const { return model_.readable(payload); }

std::string ObjectTable::lineage(const std::vector<model::PayloadId>& payloads) const {
  std::string text;
  for (model::PayloadId id : payloads) {
    const model::Payload& payload = model_.payload(id);
    text += payload.digest.empty() ? fmt::format("file{}@{}+{}", payload.file, payload.offset, payload.length)
                                   : payload.digest;
    // What varints stand for depends on the type that they are decoded to.
    if (encoded(payload)) text += fmt::format(":{}", model::dtype_name(payload.dtype));
    text += '|';
  }
  return text;
}

ObjectId ObjectTable::add(PreparedObject object) {
  const auto id = ObjectId(objects_.size());
  object.prepack_ns = double(object.source_bytes + object.bytes) / kPrepackBytesPerNs;
  by_key_.emplace(object.key, id);
  objects_.push_back(std::move(object));
  return id;
}

// `whole`: one chunk, because a source has to be decoded first.
void ObjectTable::cut_chunks(PreparedObject& object, const model::Payload& main, bool whole) const {
  const uint64_t bytes = main.bytes(), step = whole ? std::max<uint64_t>(bytes, 1) : options_.chunk_bytes;
  for (uint64_t begin = 0; begin < bytes || object.chunks.empty(); begin += step) {
    Chunk chunk{{}, begin, std::min(bytes, begin + step)};
    chunk.reads.push_back(encoded(main) ? whole_read(main, 0)
                                        : Read{main.file, main.offset + begin, chunk.end - chunk.begin, 0});
    object.chunks.push_back(std::move(chunk));
  }
}

// Where its bytes lie on the device, and how they come there. What has to be decoded is packed by the CPU.
void ObjectTable::place_on_device(PreparedObject& object, bool whole) const {
  const DeviceChoice& device = *options_.device;
  const bool packs = device.pack == DevicePack::on_device && device.backend->packs(object.layout) && !whole;
  object.recipe = packs ? Recipe::upload_pack : Recipe::pack_upload;
  for (size_t i = 0; packs && i < object.sources.size(); ++i) {
    object.device_offsets.push_back(aligned(object.device_source_bytes));
    object.device_source_bytes = object.device_offsets.back() + model_.payload(object.sources[i].payload).length;
  }
}

Result<ObjectId> ObjectTable::packed(const model::Node& node, const WeightSources& weight, bool on_device) {
  const kernels::MatMulSpec& spec = weight.spec;
  const std::vector<model::PayloadId>& sources = weight.payloads;
  auto refuse = [&](std::string reason) { return Error{ErrorKind::bad_model, "plan", node.name, std::move(reason)}; };
  if (const char* const reason = kernels::unsupported_reason(spec)) return refuse(reason);
  const std::optional<kernels::PackedLayout> layout = kernels::make_layout(spec, options_.isa, options_.tuning);
  if (!layout) return refuse("no kernel of the chosen instruction set packs this weight");
  const bool scales_decide = may_be_narrow(spec);
  const auto layout_key_of = [&](bool device) {
    const std::string wide = kernels::layout_key(*layout);
    return scales_decide && !device ? undecided_key(wide) : wide;
  };
  const auto key_on = [&](bool device) {
    return key_of(lineage(sources), layout_key_of(device),
                  device ? options_.device->backend->describe().behaviour : "cpu");
  };
  const std::string key = key_on(on_device);
  if (auto found = by_key_.find(key); found != by_key_.end()) return found->second;

  PreparedObject object;
  object.kind = ObjectKind::packed_matmul;
  object.key = key;
  object.layout_key = layout_key_of(on_device);
  object.layout = *layout;
  if (scales_decide && !on_device) {
    kernels::MatMulSpec narrow = spec;
    narrow.half_scales = true;
    object.narrow = kernels::make_layout(narrow, options_.isa, options_.tuning);
  }
  object.bytes = uint64_t(layout->packed_bytes);
  bool whole = false;
  const uint64_t expected[] = {uint64_t(layout->source_bytes), uint64_t(layout->scales_bytes),
                               uint64_t(layout->zero_points_bytes)};
  for (size_t i = 0; i < sources.size(); ++i) {
    Result<const model::Payload*> payload = readable(sources[i]);
    if (!payload.ok()) return payload.error();
    if ((*payload)->bytes() != expected[i]) {
      return refuse(fmt::format("{} has {} bytes; expected {}", (*payload)->name, (*payload)->bytes(), expected[i]));
    }
    whole = whole || encoded(**payload);
  }
  const model::Payload& main = model_.payload(sources[0]);
  object.name = main.name;
  uint64_t main_staging = 0;
  object.sources.push_back(place(main, sources[0], main_staging));
  cut_chunks(object, main, whole);
  object.chunk_staging_bytes = whole ? main_staging : std::min(options_.chunk_bytes, main_staging);
  for (size_t i = 1; i < sources.size(); ++i) {
    const model::Payload& payload = model_.payload(sources[i]);
    object.sources.push_back(place(payload, sources[i], object.aux_staging_bytes));
    object.aux_reads.push_back(whole_read(payload, object.sources.back().staging_offset));
  }
  for (model::PayloadId id : sources) object.source_bytes += model_.payload(id).length;
  if (on_device) place_on_device(object, whole);
  const ObjectId id = add(std::move(object));
  if (!options_.device) return id;
  if (const auto found = by_key_.find(key_on(!on_device)); found != by_key_.end()) {
    objects_[size_t(id)].other_side = found->second;
    objects_[size_t(found->second)].other_side = id;
  }
  return id;
}

Result<ObjectId> ObjectTable::source_form(const model::Node& node, size_t input, model::PayloadId id) {
  const std::string key = key_of(lineage({id}), "source");
  if (auto found = by_key_.find(key); found != by_key_.end()) return found->second;
  Result<const model::Payload*> payload = readable(id);
  if (!payload.ok()) return payload.error();
  const model::Payload& main = **payload;

  PreparedObject object;
  object.kind = ObjectKind::source_form;
  object.name = main.name;
  object.key = key;
  object.layout_key = "source";
  object.bytes = main.bytes();
  object.source_bytes = main.length;
  uint64_t staging = 0;
  object.sources.push_back(place(main, id, staging));
  cut_chunks(object, main, encoded(main));
  object.chunk_staging_bytes = encoded(main) ? staging : 0;
  const model::OpKind kind = node.kind();
  const bool table = kind == model::OpKind::gather || kind == model::OpKind::gather_block_quantized;
  object.row_addressable = table && input != 1 && !encoded(main);
  return add(std::move(object));
}

uint64_t ObjectTable::bundled_bytes(uint64_t bytes) { return aligned(bytes); }

Result<ObjectId> ObjectTable::bundle(const std::string& name, std::vector<model::PayloadId> payloads,
                                     std::map<model::PayloadId, uint64_t>& offsets) {
  std::sort(payloads.begin(), payloads.end(), [&](model::PayloadId a, model::PayloadId b) {
    return std::pair(model_.payload(a).file, model_.payload(a).offset) <
           std::pair(model_.payload(b).file, model_.payload(b).offset);
  });
  PreparedObject object;
  object.kind = ObjectKind::bundle;
  object.name = name;
  object.layout_key = "bundle";
  object.key = key_of(lineage(payloads), object.layout_key);
  if (auto found = by_key_.find(object.key); found != by_key_.end()) {
    // Equal digests in the same order, so each member has its twin's offset.
    const std::vector<Source>& sources = objects_[size_t(found->second)].sources;
    for (size_t i = 0; i < payloads.size(); ++i) offsets[payloads[i]] = sources[i].object_offset;
    return found->second;
  }
  std::vector<Read> reads;
  for (model::PayloadId id : payloads) {
    Result<const model::Payload*> payload = readable(id);
    if (!payload.ok()) return payload.error();
    const model::Payload& main = **payload;
    const bool joins = !reads.empty() && reads.back().file == main.file && main.offset >= reads.back().offset &&
                       main.offset <= reads.back().offset + reads.back().length + kCoalesceGapBytes;
    if (!joins) {
      const uint64_t staging = reads.empty() ? 0 : aligned(reads.back().staging_offset + reads.back().length);
      reads.push_back({main.file, main.offset, 0, staging});
    }
    Read& read = reads.back();
    read.length = std::max(read.length, main.offset + main.length - read.offset);
    Source source;
    source.payload = id;
    source.staging_offset = source.decoded_offset = read.staging_offset + (main.offset - read.offset);
    source.object_offset = aligned(object.bytes);
    object.bytes = source.object_offset + main.bytes();
    object.source_bytes += main.length;
    offsets[id] = source.object_offset;
    object.sources.push_back(source);
  }
  object.chunk_staging_bytes = std::max<uint64_t>(1, reads.back().staging_offset + reads.back().length);
  object.chunks.push_back({std::move(reads), 0, object.bytes});
  return add(std::move(object));
}

}  // namespace ompipe::plan
