#include "ompipe/kernels/isa.h"

#include <doctest/doctest.h>

using namespace ompipe::kernels;

TEST_SUITE_BEGIN("isa");

TEST_CASE("names round-trip and unknown ones are refused") {
  for (Isa isa : {Isa::scalar, Isa::avx2}) CHECK(parse_isa(isa_name(isa)) == isa);
  for (const char* name : {"", "AVX2", "sse", "avx2 ", "scalar\n"}) CHECK_FALSE(parse_isa(name).has_value());
}

TEST_CASE("scalar is always there and the best one is available") {
  CHECK(isa_available(Isa::scalar));
  CHECK(isa_available(best_isa()));
}

TEST_SUITE_END();
