#include "ompipe/device/arena.h"

#include <algorithm>

namespace ompipe::device {

using arenas::Domain;

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  reset();
  arena_ = std::exchange(other.arena_, nullptr);
  address_ = std::exchange(other.address_, Address::none);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Memory::reset() {
  if (Arena* const arena = std::exchange(arena_, nullptr))
    arena->give_back(std::exchange(address_, Address::none), std::exchange(bytes_, 0));
}

uint64_t Arena::rounded_bytes(uint64_t bytes) {
  return (std::max<uint64_t>(bytes, 1) + arenas::kPageBytes - 1) / arenas::kPageBytes * arenas::kPageBytes;
}

Result<Memory> Arena::allocate(arenas::Reservation& reservation, uint64_t bytes) {
  const uint64_t rounded = rounded_bytes(bytes);
  budget_.draw_fresh(reservation, Domain::device, rounded);
  if (!backend_) return Memory(*this, Address::none, rounded);
  const Result<Address> address = backend_->allocate(rounded);
  if (address.ok()) return Memory(*this, *address, rounded);
  budget_.undo_draw(reservation, Domain::device, rounded);
  return address.error();
}

void Arena::give_back(Address address, uint64_t bytes) {
  if (backend_) backend_->free(address, bytes);
  budget_.release_drawn(Domain::device, bytes);
}

}  // namespace ompipe::device
