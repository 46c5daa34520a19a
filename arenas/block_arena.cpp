#include "ompipe/arenas/block_arena.h"

#include <bit>

#include "pages.h"

namespace ompipe::arenas {
namespace {

// A pool of more blocks than this would only be searched in vain; the oldest go first.
constexpr size_t kMostPooledBlocks = 256;

}  // namespace

BlockArena::BlockArena(Budget& budget, const BlockArenaOptions& options)
    : budget_(budget),
      domain_(options.domain),
      binding_(options.binding),
      retention_cap_bytes_(options.retention_cap_bytes) {
  pool_.reserve(kMostPooledBlocks);
  budget_.add_trimmer(this, domain_);
}

BlockArena::~BlockArena() {
  budget_.remove_trimmer(this);
  trim();
}

uint64_t BlockArena::rounded_bytes(uint64_t bytes) {
  constexpr uint64_t kSmall = 64 << 10, kHuge = uint64_t{1} << 62;
  if (bytes > kHuge) return bytes;  // no budget grants it
  if (bytes <= kSmall) return round_up(std::max<uint64_t>(bytes, 1), kPageBytes);
  return round_up(bytes, std::bit_floor(bytes - 1) / 8);
}

Result<Allocation> BlockArena::allocate(Reservation& reservation, uint64_t bytes) {
  const uint64_t block_bytes = rounded_bytes(bytes);
  if (std::byte* pooled = take_pooled(reservation, block_bytes)) return Allocation(*this, domain_, pooled, block_bytes);
  budget_.draw_fresh(reservation, domain_, block_bytes);
  Result<std::byte*> mapped = map_block(block_bytes);
  if (mapped) return Allocation(*this, domain_, *mapped, block_bytes);
  budget_.undo_draw(reservation, domain_, block_bytes);
  return mapped.error();
}

Result<Allocation> BlockArena::allocate(uint64_t bytes, Urgency urgency, const std::string& subject) {
  const DomainBytes need{{domain_, rounded_bytes(bytes)}};
  std::optional<Reservation> reservation = budget_.reserve(need, urgency);
  if (!reservation) return budget_.refusal(need, "allocate", subject);
  return allocate(*reservation, bytes);
}

std::byte* BlockArena::take_pooled(Reservation& reservation, uint64_t bytes) {
  MutexLock lock(mutex_);
  for (size_t i = pool_.size(); i-- > 0;) {  // newest first: it is the one still in the cache
    if (pool_[i].bytes != bytes) continue;
    std::byte* data = pool_[i].data;
    pool_.erase(pool_.begin() + ptrdiff_t(i));
    pooled_bytes_ -= bytes;
    budget_.draw_pooled(reservation, domain_, bytes);
    unpoison(data, bytes);
    return data;
  }
  return nullptr;
}

Result<std::byte*> BlockArena::map_block(uint64_t bytes) {
  const bool huge = bytes >= kHugePageBytes;
  Result<std::byte*> mapped = map_pages(bytes, huge ? kHugePageBytes : kPageBytes);
  if (!mapped) return mapped;
  if (huge) advise_huge(*mapped, bytes, true);
  if (Status bound = binding_.apply(*mapped, bytes); !bound) {
    unmap_pages(*mapped, bytes);
    return bound.error();
  }
  return mapped;
}

void BlockArena::give_back(std::byte* data, uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    if (bytes <= retention_cap_bytes_) {
      const uint64_t over =
          pooled_bytes_ + bytes > retention_cap_bytes_ ? pooled_bytes_ + bytes - retention_cap_bytes_ : 0;
      drop_oldest(pool_.size() == kMostPooledBlocks ? std::max<uint64_t>(over, 1) : over);
      if (budget_.try_pool(domain_, bytes)) {
        poison(data, bytes);
        pool_.push_back({data, bytes});
        pooled_bytes_ += bytes;
        return;
      }
    }
  }
  unmap_pages(data, bytes);
  budget_.release_drawn(domain_, bytes);
}

void BlockArena::set_retention_cap(uint64_t bytes) {
  MutexLock lock(mutex_);
  retention_cap_bytes_ = bytes;
  if (pooled_bytes_ > bytes) drop_oldest(pooled_bytes_ - bytes);
}

void BlockArena::trim(uint64_t bytes) {
  MutexLock lock(mutex_);
  drop_oldest(bytes);
}

// The lock is held while the system takes the pages, so that pool, ledger and memory never disagree for another thread.
void BlockArena::drop_oldest(uint64_t bytes) {
  uint64_t dropped = 0;
  size_t count = 0;
  while (count < pool_.size() && dropped < bytes) {
    unmap_pages(pool_[count].data, pool_[count].bytes);
    dropped += pool_[count++].bytes;
  }
  pool_.erase(pool_.begin(), pool_.begin() + ptrdiff_t(count));
  pooled_bytes_ -= dropped;
  if (dropped) budget_.drop_pooled(domain_, dropped);
}

}  // namespace ompipe::arenas
