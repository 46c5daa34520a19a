// Budgets: gangs, limits, the critical reserve, what is counted where, and the audit.
#include "ompipe/arenas/budget.h"

#include <doctest/doctest.h>

using namespace ompipe;
using namespace ompipe::arenas;

namespace {

BudgetLimits limits(uint64_t global, DomainBytes domains = DomainBytes::filled(kUnlimited),
                    uint64_t critical_reserve = 0) {
  return {global, domains, critical_reserve};
}

std::optional<Reservation> take(Budget& budget, Domain domain, uint64_t bytes, Urgency urgency = Urgency::critical) {
  return budget.reserve({{domain, bytes}}, urgency);
}

}  // namespace

TEST_SUITE("budget") {
  TEST_CASE("a gang is granted whole or not at all") {
    DomainBytes domains = DomainBytes::filled(kUnlimited);
    domains[Domain::prepared] = 100;
    Budget budget(limits(1000, domains));
    CHECK_FALSE(budget.reserve({{Domain::preparation, 10}, {Domain::prepared, 101}}, Urgency::critical));
    CHECK(budget.usage()[Domain::preparation].live_bytes == 0);
    CHECK_FALSE(budget.reserve({{Domain::preparation, 901}, {Domain::prepared, 100}}, Urgency::critical));
    {
      auto gang = budget.reserve({{Domain::preparation, 900}, {Domain::prepared, 100}}, Urgency::critical);
      REQUIRE(gang);
      CHECK(gang->left_bytes(Domain::prepared) == 100);
      CHECK_FALSE(take(budget, Domain::io, 1));
    }
    CHECK(budget.audit().empty());
    CHECK(budget.usage().global_bytes == 0);
    CHECK(budget.usage().global_peak_bytes == 1000);
    CHECK(budget.usage()[Domain::preparation].peak_bytes == 900);
  }

  TEST_CASE("parts of a gang move, split and return on their own") {
    Budget budget;
    auto gang = budget.reserve({{Domain::prepared, 100}, {Domain::preparation, 50}}, Urgency::critical);
    Reservation part = gang->split({{Domain::prepared, 60}});
    CHECK(gang->left_bytes(Domain::prepared) == 40);
    CHECK(part.left_bytes(Domain::prepared) == 60);
    gang.reset();
    CHECK(budget.usage()[Domain::prepared].live_bytes == 60);
    CHECK(budget.usage()[Domain::preparation].live_bytes == 0);
    Reservation moved = std::move(part);
    part.release();
    CHECK(budget.usage()[Domain::prepared].live_bytes == 60);
    CHECK(budget.audit() == "prepared: 60 bytes live, 0 of them drawn");
    moved = Reservation();
    CHECK(budget.audit().empty());
  }

  TEST_CASE("a reservation takes over what is left in another") {
    Budget budget;
    Reservation all;
    all.merge(Reservation());
    for (uint64_t bytes : {10, 20}) all.merge(std::move(*take(budget, Domain::io, bytes)));
    CHECK(all.left_bytes(Domain::io) == 30);
    CHECK(budget.usage()[Domain::io].live_bytes == 30);
    all.release();
    CHECK(budget.audit() == "");
  }

  TEST_CASE("speculative work leaves the critical reserve free, critical work may use it") {
    Budget budget(limits(100, DomainBytes::filled(kUnlimited), 30));
    auto speculative = take(budget, Domain::prepared, 70, Urgency::speculative);
    CHECK(speculative);
    CHECK_FALSE(take(budget, Domain::prepared, 1, Urgency::speculative));
    auto critical = take(budget, Domain::prepared, 30);
    CHECK(critical);
    CHECK_FALSE(take(budget, Domain::prepared, 1));
  }

  TEST_CASE("a reserve above the whole budget leaves speculative work nothing") {
    Budget budget(limits(100, DomainBytes::filled(kUnlimited), 1000));
    CHECK_FALSE(take(budget, Domain::io, 1, Urgency::speculative));
    CHECK(take(budget, Domain::io, 100));
  }

  TEST_CASE("mapped bytes stand outside the global budget") {
    DomainBytes domains = DomainBytes::filled(kUnlimited);
    domains[Domain::mapped] = 5000;
    Budget budget(limits(100, domains));
    auto mapped = take(budget, Domain::mapped, 5000);
    REQUIRE(mapped);
    CHECK_FALSE(take(budget, Domain::mapped, 1));
    auto all = take(budget, Domain::execution, 100);
    CHECK(all);
    CHECK(budget.usage().global_bytes == 100);
  }

  TEST_CASE("a lowered limit refuses until enough has been returned, and holds up nobody else's domain") {
    Budget budget;
    auto a = take(budget, Domain::prepared, 600);
    auto b = take(budget, Domain::prepared, 300);
    DomainBytes domains = DomainBytes::filled(kUnlimited);
    domains[Domain::prepared] = 500;
    budget.set_limits(limits(kUnlimited, domains));
    CHECK(budget.usage()[Domain::prepared].live_bytes == 900);
    CHECK_FALSE(take(budget, Domain::prepared, 1));
    CHECK(take(budget, Domain::io, 1));
    a.reset();
    CHECK(take(budget, Domain::prepared, 200));
    CHECK_FALSE(take(budget, Domain::prepared, 201));
  }

  TEST_CASE("sums that would overflow are refused") {
    Budget budget;
    auto some = take(budget, Domain::io, 4096);
    CHECK_FALSE(take(budget, Domain::io, UINT64_MAX));
    CHECK_FALSE(take(budget, Domain::prepared, UINT64_MAX - 1));
    CHECK(budget.usage()[Domain::io].live_bytes == 4096);
    CHECK(DomainBytes({{Domain::io, UINT64_MAX}, {Domain::io, 2}})[Domain::io] == UINT64_MAX);
  }

  TEST_CASE("what can never fit says so with the numbers") {
    DomainBytes domains = DomainBytes::filled(kUnlimited);
    domains[Domain::prepared] = 500;
    Budget budget(limits(600, domains));
    CHECK(budget.fits_limits({{Domain::prepared, 500}, {Domain::io, 100}, {Domain::mapped, 9999}}, "bind", "m").ok());
    const Status domain = budget.fits_limits({{Domain::prepared, 501}}, "bind", "model.onnx");
    REQUIRE_FALSE(domain.ok());
    CHECK(domain.error().kind == ErrorKind::cannot_fit);
    CHECK(domain.error().message() == "bind: model.onnx: needs 501 bytes of prepared, the limit is 500");
    const Status global = budget.fits_limits({{Domain::prepared, 500}, {Domain::io, 101}}, "bind", "model.onnx");
    REQUIRE_FALSE(global.ok());
    CHECK(global.error().message() == "bind: model.onnx: needs 601 bytes in all, the budget is 600");
  }

  TEST_CASE("a refusal names what was asked and what is live") {
    Budget budget(limits(100));
    auto live = take(budget, Domain::execution, 40);
    const Error error = budget.refusal({{Domain::execution, 70}}, "allocate", "logits");
    CHECK(error.kind == ErrorKind::cannot_fit);
    CHECK(error.message() ==
          "allocate: logits: the budgets refuse 70 bytes of execution (live 40 of unlimited), global 40 of 100");
  }
}
