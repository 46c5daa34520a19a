// Random walks over a budget and its arenas, against a plain model of the rules in budget.h.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <functional>

#include "ompipe/arenas/block_arena.h"
#include "ompipe/arenas/prepared_arena.h"

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

void check(const std::function<void()>& property) { CHECK(rc::check(property)); }

uint64_t below(uint64_t end) { return *rc::gen::inRange<uint64_t>(0, end); }
Domain any_domain() { return kDomains[below(kDomains.size())]; }

DomainBytes any_gang() {
  DomainBytes gang;
  for (uint64_t parts = below(4); parts-- > 0;) gang[any_domain()] = below(60);
  return gang;
}

BudgetLimits any_limits() {
  BudgetLimits limits{.global_bytes = below(4) ? below(300) : kUnlimited, .critical_reserve_bytes = below(60)};
  for (Domain d : kDomains) limits.domain_bytes[d] = below(3) ? below(150) : kUnlimited;
  return limits;
}

uint64_t model_sum(const DomainBytes& bytes) {
  uint64_t sum = 0;
  for (Domain d : kDomains) sum += in_global(d) ? bytes[d] : 0;
  return sum;
}

// The rules for reservations alone, without overflow, pools or locks.
struct Model {
  BudgetLimits limits = {};
  DomainBytes live = {}, peak = {};
  uint64_t global_peak = 0;

  bool grants(const DomainBytes& gang, Urgency urgency) const {
    for (Domain d : kDomains)
      if (gang[d] && live[d] + gang[d] > limits.domain_bytes[d]) return false;
    if (model_sum(gang) == 0 || limits.global_bytes == kUnlimited) return true;
    const uint64_t kept = urgency == Urgency::critical ? 0 : limits.critical_reserve_bytes;
    return model_sum(live) + model_sum(gang) + kept <= limits.global_bytes ||
           (kept > limits.global_bytes && model_sum(live) + model_sum(gang) == 0);
  }
  void add(const DomainBytes& gang) {
    for (Domain d : kDomains) peak[d] = std::max(peak[d], live[d] += gang[d]);
    global_peak = std::max(global_peak, model_sum(live));
  }
};

void assert_equal(const Budget& budget, const Model& model) {
  const BudgetUsage usage = budget.usage();
  for (Domain d : kDomains) {
    RC_ASSERT(usage[d].live_bytes == model.live[d]);
    RC_ASSERT(usage[d].peak_bytes == model.peak[d]);
    RC_ASSERT(usage[d].limit_bytes == model.limits.domain_bytes[d]);
  }
  RC_ASSERT(usage.global_bytes == model_sum(model.live));
  RC_ASSERT(usage.global_peak_bytes == model.global_peak);
}

}  // namespace

TEST_SUITE("budget_properties") {
  TEST_CASE("reservations: granted exactly by the rules, all or none, peaks right, limits changing") {
    check([] {
      Model model{.limits = any_limits()};
      Budget budget(model.limits);
      std::vector<std::pair<Reservation, DomainBytes>> held;
      for (uint64_t steps = below(120); steps-- > 0;) {
        const uint64_t action = below(10);
        if (action < 6) {
          const DomainBytes gang = any_gang();
          const Urgency urgency = below(2) ? Urgency::critical : Urgency::speculative;
          const bool expected = model.grants(gang, urgency);
          auto granted = budget.reserve(gang, urgency);
          RC_ASSERT(granted.has_value() == expected);
          if (!granted) continue;
          model.add(gang);
          held.emplace_back(std::move(*granted), gang);
        } else if (action < 9 && !held.empty()) {
          std::swap(held[below(held.size())], held.back());
          for (Domain d : kDomains) model.live[d] -= held.back().second[d];
          held.pop_back();
        } else {
          model.limits = any_limits();
          budget.set_limits(model.limits);
        }
        assert_equal(budget, model);
      }
      held.clear();
      RC_ASSERT(budget.audit().empty());
    });
  }

  TEST_CASE("arenas: nothing held or counted ever exceeds the limits, and a reserved gang can always be drawn") {
    constexpr uint64_t kGlobalBytes = 12 << 20, kCriticalReserveBytes = 2 << 20;
    check([&] {
      Budget budget({.global_bytes = kGlobalBytes, .critical_reserve_bytes = kCriticalReserveBytes});
      BlockArena preparation(budget, {.domain = Domain::preparation});
      BlockArena io(budget, {.domain = Domain::io, .retention_cap_bytes = 3 << 20});
      std::vector<uint64_t> sizes;
      for (int i = 0; i < 12; i++) sizes.push_back(1 + below(3 << 20));
      auto created = PreparedArena::create(budget, sizes, below(2) ? PreparedLayout::packed : PreparedLayout::separate);
      RC_ASSERT(created.ok());
      struct Held {
        Allocation allocation;
        std::byte mark;
      };
      std::vector<Held> blocks;
      std::vector<std::optional<Held>> objects(sizes.size());
      const auto hold = [&](Allocation allocation, uint64_t step) {
        const std::byte mark = std::byte(step + 1);
        allocation.data()[0] = allocation.data()[allocation.bytes() - 1] = mark;
        return Held{std::move(allocation), mark};
      };
      const auto assert_kept = [](const Held& held) {
        RC_ASSERT(held.allocation.data()[0] == held.mark);
        RC_ASSERT(held.allocation.data()[held.allocation.bytes() - 1] == held.mark);
      };
      for (uint64_t step = 0, steps = below(40); step < steps; step++) {
        const uint64_t action = below(8);
        if (action < 5) {
          const size_t object = below(sizes.size());
          const uint64_t chunk_bytes = 1 + below(2 << 20), output_bytes = below(1 << 18);
          const bool critical = below(2);
          DomainBytes gang{{Domain::preparation, BlockArena::rounded_bytes(chunk_bytes)},
                           {Domain::io, BlockArena::rounded_bytes(output_bytes)}};
          if (!objects[object]) gang[Domain::prepared] = PreparedArena::rounded_bytes(sizes[object]);
          const DomainBytes live_before = [&] {
            DomainBytes live;
            for (Domain d : kDomains) live[d] = budget.usage()[d].live_bytes;
            return live;
          }();
          auto granted = budget.reserve(gang, critical ? Urgency::critical : Urgency::speculative);
          const uint64_t limit = critical ? kGlobalBytes : kGlobalBytes - kCriticalReserveBytes;
          RC_ASSERT(granted.has_value() == (model_sum(live_before) + model_sum(gang) <= limit));
          if (!granted) continue;
          if (!objects[object]) objects[object] = hold((*created)->commit(object, *granted), step);
          blocks.push_back(hold(*preparation.allocate(*granted, chunk_bytes), step));
          if (below(2)) blocks.push_back(hold(*io.allocate(*granted, output_bytes), step));
        } else if (action == 5 && !blocks.empty()) {
          std::swap(blocks[below(blocks.size())], blocks.back());
          assert_kept(blocks.back());
          blocks.pop_back();
        } else if (action == 6) {
          std::optional<Held>& object = objects[below(sizes.size())];
          if (object) assert_kept(*object);
          object.reset();
        } else {
          budget.trim();
          for (Domain d : kDomains) RC_ASSERT(budget.usage()[d].retained_bytes == 0u);
        }
        const BudgetUsage usage = budget.usage();
        uint64_t sum = 0;
        for (Domain d : kDomains) sum += usage[d].live_bytes + usage[d].retained_bytes;
        RC_ASSERT(usage.global_bytes == sum);
        RC_ASSERT(usage.global_peak_bytes <= kGlobalBytes);
      }
      for (const auto& object : objects)
        if (object) assert_kept(*object);
      blocks.clear();
      objects.clear();
      RC_ASSERT(budget.audit().empty());
    });
  }
}
