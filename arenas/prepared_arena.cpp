#include "ompipe/arenas/prepared_arena.h"

#include <algorithm>

#include "pages.h"

namespace ompipe::arenas {

Result<std::unique_ptr<PreparedArena>> PreparedArena::create(Budget& budget, std::span<const uint64_t> object_bytes,
                                                             PreparedLayout layout, const MemoryBinding& binding) {
  std::unique_ptr<PreparedArena> arena(new PreparedArena(budget, layout));
  arena->lay_out(object_bytes);
  if (Status mapped = arena->map(binding); !mapped) return mapped.error();
  return arena;
}

PreparedArena::~PreparedArena() {
  if (!base_) return;
  budget_.remove_trimmer(this);
  unmap_pages(base_, region_bytes_);
}

uint64_t PreparedArena::rounded_bytes(uint64_t bytes) { return round_up(std::max<uint64_t>(bytes, 1), kPageBytes); }

void PreparedArena::lay_out(std::span<const uint64_t> object_bytes) {
  MutexLock lock(mutex_);
  uint64_t end = 0;
  for (uint64_t wanted : object_bytes) {
    const uint64_t bytes = rounded_bytes(wanted);
    const bool on_huge_page = layout_ == PreparedLayout::separate && bytes >= kHugePageBytes;
    const uint64_t offset = on_huge_page ? round_up(end, kHugePageBytes) : end;
    objects_.push_back({offset, bytes, State::absent});
    end = offset + bytes;
  }
  region_bytes_ = round_up(std::max(end, kPageBytes), kHugePageBytes);
  if (layout_ == PreparedLayout::packed) frames_.resize(region_bytes_ / kHugePageBytes);
}

Status PreparedArena::map(const MemoryBinding& binding) {
  Result<std::byte*> mapped = map_pages(region_bytes_, kHugePageBytes);
  if (!mapped) return mapped.error();
  base_ = *mapped;
  budget_.add_trimmer(this, Domain::prepared);
  advise_huge(base_, region_bytes_, layout_ == PreparedLayout::packed);
  if (layout_ == PreparedLayout::separate) {
    MutexLock lock(mutex_);
    for (const Object& object : objects_)
      if (object.bytes >= kHugePageBytes)
        advise_huge(base_ + object.offset, object.bytes / kHugePageBytes * kHugePageBytes, true);
  }
  poison(base_, region_bytes_);
  return binding.apply(base_, region_bytes_);
}

uint64_t PreparedArena::overlap_bytes(const Object& object, size_t frame) {
  const uint64_t begin = std::max(object.offset, frame * kHugePageBytes);
  const uint64_t end = std::min(object.offset + object.bytes, (frame + 1) * kHugePageBytes);
  return end > begin ? end - begin : 0;
}

size_t PreparedArena::object_at(uint64_t offset) const {
  const auto after = std::upper_bound(objects_.begin(), objects_.end(), offset,
                                      [](uint64_t at, const Object& object) { return at < object.offset; });
  return size_t(after - objects_.begin()) - 1;
}

Allocation PreparedArena::commit(size_t index, Reservation& reservation) {
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    OMPIPE_CHECK(index < objects_.size() && objects_[index].state == State::absent,
                 "only an absent object is committed");
    bytes = objects_[index].bytes;
  }
  budget_.draw_fresh(reservation, Domain::prepared, bytes);
  MutexLock lock(mutex_);
  Object& object = objects_[index];
  object.state = State::live;
  enter_frames(object);
  unpoison(base_ + object.offset, bytes);
  return Allocation(*this, Domain::prepared, base_ + object.offset, bytes);
}

void PreparedArena::give_back(std::byte* data, uint64_t bytes) {
  const uint64_t offset = uint64_t(data - base_);
  size_t index = 0;
  {
    MutexLock lock(mutex_);
    index = object_at(offset);
    OMPIPE_CHECK(objects_[index].offset == offset && objects_[index].state == State::live, "not a live object");
    objects_[index].state = State::leaving;
  }
  poison(data, bytes);
  discard_pages(data, bytes);
  {
    MutexLock lock(mutex_);
    leave_frames(objects_[index]);
    objects_[index].state = State::absent;
  }
  budget_.release_drawn(Domain::prepared, bytes);
}

void PreparedArena::trim(uint64_t bytes) {
  MutexLock lock(mutex_);
  uint64_t trimmed = 0;
  for (size_t f = 0; f < frames_.size() && trimmed < bytes; f++) {
    const uint64_t slack = slack_bytes(f);
    if (slack) break_frame(f);
    trimmed += slack;
  }
}

uint64_t PreparedArena::slack_bytes(size_t frame) const {
  return frames_[frame].state == FrameState::huge ? kHugePageBytes - frames_[frame].live_bytes : 0;
}

// The object's bytes have been drawn; in a frame that is huge already they were counted as pooled, and no longer are.
void PreparedArena::enter_frames(const Object& object) {
  for (size_t f = object.offset / kHugePageBytes; f < frames_.size() && overlap_bytes(object, f); f++) {
    const uint64_t bytes = overlap_bytes(object, f);
    if (frames_[f].state == FrameState::huge) budget_.drop_pooled(Domain::prepared, bytes);
    if (frames_[f].state == FrameState::idle) {
      const bool room = budget_.add_pooled(Domain::prepared, kHugePageBytes - bytes);
      frames_[f].state = room ? FrameState::huge : FrameState::broken;
      advise_frame(f, room);
    }
    frames_[f].live_bytes += bytes;
  }
}

void PreparedArena::leave_frames(const Object& object) {
  for (size_t f = object.offset / kHugePageBytes; f < frames_.size() && overlap_bytes(object, f); f++) {
    const uint64_t bytes = overlap_bytes(object, f);
    if (frames_[f].state == FrameState::huge && bytes < kHugePageBytes) break_frame(f);
    frames_[f].live_bytes -= bytes;
    if (frames_[f].live_bytes == 0) frames_[f].state = FrameState::idle;
  }
}

void PreparedArena::advise_frame(size_t f, bool huge) {
  if (frames_[f].advised_huge == huge) return;
  frames_[f].advised_huge = huge;
  advise_huge(base_ + f * kHugePageBytes, kHugePageBytes, huge);
}

// Gives back what the huge page adds. Held under the lock: what is dead now must not become live before its pages are
// gone.
void PreparedArena::break_frame(size_t f) {
  budget_.drop_pooled(Domain::prepared, slack_bytes(f));
  frames_[f].state = FrameState::broken;
  advise_frame(f, false);
  discard_dead(f);
}

void PreparedArena::discard_dead(size_t f) {
  const uint64_t begin = f * kHugePageBytes, end = begin + kHugePageBytes;
  uint64_t dead_from = begin;
  for (size_t i = object_at(begin); i < objects_.size() && objects_[i].offset < end; i++) {
    if (objects_[i].state != State::live) continue;
    if (objects_[i].offset > dead_from) discard_pages(base_ + dead_from, objects_[i].offset - dead_from);
    dead_from = objects_[i].offset + objects_[i].bytes;
  }
  if (dead_from < end) discard_pages(base_ + dead_from, end - dead_from);
}

}  // namespace ompipe::arenas
