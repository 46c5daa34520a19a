#include "facts.h"

#include "ompipe/arenas/error.h"

namespace ompipe::model {

TensorFact fact_of_shape(DType dtype, const SymbolicShape& shape, bool has_shape, SymbolTable* symbols) {
  OMPIPE_CHECK(shape.size() <= size_t(kMaxRank));
  TensorFact fact;
  fact.dtype = dtype;
  fact.has_shape = has_shape;
  fact.rank = uint8_t(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].value) {
      fact.dims[i] = {*shape[i].value};
    } else if (!shape[i].symbol.empty() && symbols) {
      fact.dims[i] = symbols->intern(shape[i].symbol);
    } else {
      fact.dims[i] = unknown_extent();
    }
  }
  return fact;
}

void set_contents(const ConstantTensor& constant, ContentsPool& pool, TensorFact& fact) {
  const Extent count = fact.count();
  if (!is_integer(constant.dtype) || !count.known() || count.value > int64_t(kMaxFollowedElements)) return;
  const std::vector<int64_t> numbers = constant.as_int64();
  Extent* items = pool.take(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) items[i] = {numbers[i]};
  fact.contents = items;
  fact.content_count = uint32_t(numbers.size());
}

}  // namespace ompipe::model
