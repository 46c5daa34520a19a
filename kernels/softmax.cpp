#include "ompipe/kernels/softmax.h"

#include "simd_kernels.h"
#include "softmax_simd.h"

namespace ompipe::kernels {
namespace {
constexpr double kNsPerElement = 1.5;
}  // namespace

TiledCall softmax_call(const SoftmaxArguments& arguments, Isa isa) {
  const double elements = double(arguments.outer) * double(arguments.axis) * double(arguments.inner);
  return one_phase(&arguments, simd_kernels(isa).softmax, softmax_tiles(arguments).count, kNsPerElement * elements);
}

}  // namespace ompipe::kernels
