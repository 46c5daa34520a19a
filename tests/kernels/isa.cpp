#include "ompipe/kernels/isa.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace ompipe::kernels;

TEST_SUITE_BEGIN("isa");

TEST_CASE("names round-trip, differ, and unknown ones are refused") {
  std::set<std::string> names;
  for (Isa isa : kIsas) {
    CHECK(parse_isa(isa_name(isa)) == isa);
    names.insert(isa_name(isa));
  }
  CHECK(names.size() == kIsas.size());
  for (const char* name : {"", "AVX2", "sse", "avx2 ", "scalar\n", "avx", "avx512f"}) {
    CHECK_FALSE(parse_isa(name).has_value());
  }
}

TEST_CASE("scalar is always there and the best one is the last that is available") {
  CHECK(isa_available(Isa::scalar));
  CHECK(isa_available(best_isa()));
  for (Isa isa : kIsas) CHECK((isa <= best_isa() || !isa_available(isa)));
}

TEST_CASE("a set comes with those that it builds on, and no CPU has sets of two architectures") {
  if (isa_available(Isa::avx_vnni) || isa_available(Isa::avx512)) CHECK(isa_available(Isa::avx2));
  if (isa_available(Isa::avx512_vnni)) CHECK(isa_available(Isa::avx512));
  if (isa_available(Isa::neon_dotprod)) CHECK(isa_available(Isa::neon));
  CHECK_FALSE((isa_available(Isa::avx2) && isa_available(Isa::neon)));
}

TEST_SUITE_END();
