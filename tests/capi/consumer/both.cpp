// The C interface and the C++ headers of one installation, from the static library: both name the same layout.
#include <cstdio>
#include <vector>

#include "ompipe/kernels/matmul.h"
#include "ompipe_kernels.h"

int main() {
  ompipe_matmul_weight weight = {};
  weight.struct_bytes = sizeof weight;
  weight.k = 96;
  weight.n = 40;
  weight.format = OMPIPE_WEIGHT_F16;
  weight.trans_b = 1;
  const ompipe_size size = ompipe_matmul_layout_size();
  std::vector<char> storage(size.bytes + size.alignment);
  void* place = storage.data() + size.alignment - reinterpret_cast<uintptr_t>(storage.data()) % size.alignment;
  auto* const layout = static_cast<ompipe_matmul_layout*>(place);
  if (ompipe_matmul_layout_init(layout, size.bytes, &weight, nullptr) != OMPIPE_OK) return 1;
  char key[128];
  if (ompipe_matmul_layout_key(layout, key, sizeof key, nullptr) != OMPIPE_OK) return 1;

  ompipe::kernels::MatMulSpec spec;
  spec.format = ompipe::kernels::WeightFormat::f16;
  spec.k = 96;
  spec.n = 40;
  spec.trans_b = true;
  const auto same = ompipe::kernels::make_layout(spec, ompipe::kernels::best_isa());
  std::printf("%s\n", key);
  return same && ompipe::kernels::layout_key(*same) == key ? 0 : 1;
}
