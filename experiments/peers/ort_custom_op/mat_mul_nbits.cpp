#include "mat_mul_nbits.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ompipe_kernels.h"

namespace ompipe_ort {
namespace {

enum Input : size_t { kA, kB, kScales, kZeroPoints, kGroupIndex, kBias, kInputs };

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

size_t rounded(size_t bytes, size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

Memory allocate(size_t bytes, size_t alignment) {
  return Memory(std::aligned_alloc(alignment, rounded(std::max(bytes, size_t{1}), alignment)));
}

#define OMPIPE_ORT_TRY(call) \
  if (OrtStatus* const status = (call)) return status

OrtStatus* failure(const OrtApi& api, const std::string& text) {
  return api.CreateStatus(ORT_FAIL, ("ompipe::MatMulNBits: " + text).c_str());
}

// The tiles of one phase, taken by as many of the pool's threads as come.
struct Phase {
  const ompipe_call* call;
  int32_t number;
  int64_t tiles;
  std::byte* scratch;  // tile_bytes for each worker
  int64_t tile_bytes;
  std::atomic<int64_t> next{0};
  std::atomic<ompipe_status> status{OMPIPE_OK};

  static void work(void* phase, size_t worker) {
    auto& self = *static_cast<Phase*>(phase);
    std::byte* const scratch = self.scratch + worker * static_cast<size_t>(self.tile_bytes);
    for (int64_t tile; (tile = self.next.fetch_add(1, std::memory_order_relaxed)) < self.tiles;) {
      const ompipe_status status = ompipe_call_run_tile(self.call, self.number, tile, scratch, self.tile_bytes);
      if (status != OMPIPE_OK) self.status.store(status, std::memory_order_relaxed);
    }
  }
};

// One node: its packed weight. Computes may run at once, each with memory of its own.
class Kernel {
 public:
  // `elements`: of A, bias and the result, OMPIPE_ELEMENTS_...
  Kernel(const OrtApi& api, int32_t elements) : api_(api), elements_(elements) {}

  OrtStatus* prepare(const OrtKernelInfo* info) {
    ompipe_matmul_weight weight = {};
    weight.struct_bytes = sizeof weight;
    weight.format = OMPIPE_WEIGHT_NBITS;
    int64_t bits = 4, block = 0, level = 0;
    OMPIPE_ORT_TRY(attribute(info, "K", &weight.k));
    OMPIPE_ORT_TRY(attribute(info, "N", &weight.n));
    OMPIPE_ORT_TRY(attribute(info, "block_size", &block));
    ignore(attribute(info, "bits", &bits));
    ignore(attribute(info, "accuracy_level", &level));
    OMPIPE_ORT_TRY(narrow("bits", bits, &weight.bits));
    OMPIPE_ORT_TRY(narrow("block_size", block, &weight.block));
    OMPIPE_ORT_TRY(narrow("accuracy_level", level, &weight.accuracy_level));
    if (is_given(info, kGroupIndex)) return failure(api_, "g_idx is not supported");
    has_bias_ = is_given(info, kBias);

    Constant b, scales, zero_points;
    OMPIPE_ORT_TRY(read(info, kB, &b));
    OMPIPE_ORT_TRY(read(info, kScales, &scales));
    if (is_given(info, kZeroPoints)) OMPIPE_ORT_TRY(read(info, kZeroPoints, &zero_points));
    weight.scales = scales.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ? OMPIPE_SCALES_F16 : OMPIPE_SCALES_F32;
    if (zero_points.data != nullptr) {
      weight.zero_points = zero_points.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT     ? OMPIPE_ZERO_POINTS_F32
                           : zero_points.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ? OMPIPE_ZERO_POINTS_F16
                                                                                       : OMPIPE_ZERO_POINTS_PACKED;
    }
    return pack(weight, b, scales, zero_points);
  }

  OrtStatus* compute(OrtKernelContext* context) const {
    const OrtValue* a = nullptr;
    const OrtValue* bias = nullptr;
    OMPIPE_ORT_TRY(api_.KernelContext_GetInput(context, kA, &a));
    if (has_bias_) OMPIPE_ORT_TRY(api_.KernelContext_GetInput(context, kBias, &bias));
    std::vector<int64_t> dims;
    if (bias != nullptr) {
      OMPIPE_ORT_TRY(shape(bias, &dims));
      if (dims != std::vector<int64_t>{n_}) return failure(api_, "the bias must have the shape [N]");
    }
    OMPIPE_ORT_TRY(shape(a, &dims));
    if (dims.empty() || dims.back() != k_) return failure(api_, "the last axis of A isn't K");
    ompipe_matmul_product product = ompipe_matmul_product_default();
    product.m = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) product.m *= dims[i];
    dims.back() = n_;
    OrtValue* out = nullptr;
    OMPIPE_ORT_TRY(api_.KernelContext_GetOutput(context, 0, dims.data(), dims.size(), &out));
    OMPIPE_ORT_TRY(api_.GetTensorData(a, &product.a));
    OMPIPE_ORT_TRY(api_.GetTensorMutableData(out, &product.out));
    if (bias != nullptr) OMPIPE_ORT_TRY(api_.GetTensorData(bias, &product.c));
    product.layout = layout();
    product.elements = elements_;
    product.packed = packed_.get();
    product.lda = k_;
    product.ldo = n_;
    return run(context, product);
  }

 private:
  struct Constant {
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const void* data = nullptr;
    size_t bytes = 0;
  };

  const ompipe_matmul_layout* layout() const { return static_cast<const ompipe_matmul_layout*>(layout_.get()); }

  // For attributes that have a default.
  void ignore(OrtStatus* status) const {
    if (status != nullptr) api_.ReleaseStatus(status);
  }

  OrtStatus* attribute(const OrtKernelInfo* info, const char* name, int64_t* value) const {
    return api_.KernelInfoGetAttribute_int64(info, name, value);
  }

  // The kernels' structures hold 32 bits.
  OrtStatus* narrow(const char* name, int64_t value, int32_t* into) const {
    *into = static_cast<int32_t>(value);
    return *into == value ? nullptr : failure(api_, std::string(name) + " is out of range");
  }

  // An optional input that is left out has an empty name, or none.
  bool is_given(const OrtKernelInfo* info, size_t input) const {
    size_t inputs = 0, name_bytes = 0;
    ignore(api_.KernelInfo_GetInputCount(info, &inputs));
    if (input >= inputs) return false;
    ignore(api_.KernelInfo_GetInputName(info, input, nullptr, &name_bytes));
    return name_bytes > 1;
  }

  OrtStatus* read(const OrtKernelInfo* info, size_t input, Constant* constant) const {
    int is_constant = 0;
    const OrtValue* value = nullptr;
    OMPIPE_ORT_TRY(api_.KernelInfoGetConstantInput_tensor(info, input, &is_constant, &value));
    if (is_constant == 0 || value == nullptr) return failure(api_, "B, scales and zero_points must be constant");
    OrtTensorTypeAndShapeInfo* type = nullptr;
    OMPIPE_ORT_TRY(api_.GetTensorTypeAndShape(value, &type));
    ignore(api_.GetTensorElementType(type, &constant->type));
    api_.ReleaseTensorTypeAndShapeInfo(type);
    OMPIPE_ORT_TRY(api_.GetTensorSizeInBytes(value, &constant->bytes));
    return api_.GetTensorData(value, &constant->data);
  }

  OrtStatus* shape(const OrtValue* value, std::vector<int64_t>* dims) const {
    OrtTensorTypeAndShapeInfo* type = nullptr;
    size_t rank = 0;
    OMPIPE_ORT_TRY(api_.GetTensorTypeAndShape(value, &type));
    OrtStatus* status = api_.GetDimensionsCount(type, &rank);
    dims->resize(rank);
    if (status == nullptr) status = api_.GetDimensions(type, dims->data(), rank);
    api_.ReleaseTensorTypeAndShapeInfo(type);
    return status;
  }

  OrtStatus* pack(const ompipe_matmul_weight& weight, const Constant& b, const Constant& scales,
                  const Constant& zero_points) {
    k_ = weight.k;
    n_ = weight.n;
    const char* reason = nullptr;
    const ompipe_size size = ompipe_matmul_layout_size();
    layout_ = allocate(size.bytes, size.alignment);
    auto* const made = static_cast<ompipe_matmul_layout*>(layout_.get());
    if (ompipe_matmul_layout_init(made, size.bytes, &weight, &reason) != OMPIPE_OK) return failure(api_, reason);
    ompipe_matmul_sizes sizes = {};
    sizes.struct_bytes = sizeof sizes;
    ompipe_matmul_layout_sizes(made, &sizes);
    const auto is = [](const Constant& constant, int64_t bytes) {
      return constant.bytes == static_cast<size_t>(bytes);
    };
    if (!is(b, sizes.source_bytes) || !is(scales, sizes.scales_bytes) || !is(zero_points, sizes.zero_points_bytes)) {
      return failure(api_, "the size of B, scales or zero_points isn't that of K, N, bits and block_size");
    }
    packed_ = allocate(static_cast<size_t>(sizes.packed_bytes), OMPIPE_ALIGNMENT);
    if (packed_ == nullptr) return failure(api_, "no memory for the packed weight");
    ompipe_matmul_source source = {};
    source.struct_bytes = sizeof source;
    source.end = sizes.source_bytes;
    source.range = b.data;
    source.scales = scales.data;
    source.zero_points = zero_points.data;
    if (ompipe_matmul_pack(made, &source, packed_.get(), sizes.packed_bytes, &reason) != OMPIPE_OK) {
      return failure(api_, reason);
    }
    return nullptr;
  }

  // One block of memory a run: the call, what its tiles share, and scratch for as many workers as there are cores.
  OrtStatus* run(OrtKernelContext* context, ompipe_matmul_product& product) const {
    int64_t tile_bytes = 0;
    const size_t workers = std::max(std::thread::hardware_concurrency(), 1u);
    if (ompipe_matmul_scratch(&product, &product.shared_scratch_bytes, &tile_bytes) != OMPIPE_OK) {
      return failure(api_, "too many rows");
    }
    tile_bytes = static_cast<int64_t>(rounded(static_cast<size_t>(tile_bytes), OMPIPE_ALIGNMENT));
    const ompipe_size size = ompipe_call_size();
    const size_t call_bytes = rounded(size.bytes, OMPIPE_ALIGNMENT);
    const size_t shared_bytes = rounded(static_cast<size_t>(product.shared_scratch_bytes), OMPIPE_ALIGNMENT);
    const size_t all = call_bytes + shared_bytes + workers * static_cast<size_t>(tile_bytes);
    const Memory memory = allocate(all, std::max<size_t>(size.alignment, OMPIPE_ALIGNMENT));
    if (memory == nullptr) return failure(api_, "no memory for scratch");
    auto* const call = static_cast<ompipe_call*>(memory.get());
    product.shared_scratch = static_cast<std::byte*>(memory.get()) + call_bytes;
    const char* reason = nullptr;
    if (ompipe_matmul_call_init(call, size.bytes, &product, &reason) != OMPIPE_OK) return failure(api_, reason);
    std::byte* const scratch = static_cast<std::byte*>(product.shared_scratch) + shared_bytes;
    for (int32_t number = 0; number < ompipe_call_phases(call); ++number) {
      Phase phase{call, number, ompipe_call_tiles(call, number), scratch, tile_bytes};
      const size_t takers = std::min(workers, static_cast<size_t>(phase.tiles));
      if (takers <= 1) {
        Phase::work(&phase, 0);
      } else {
        OMPIPE_ORT_TRY(api_.KernelContext_ParallelFor(context, &Phase::work, takers, 0, &phase));
      }
      if (phase.status != OMPIPE_OK) return failure(api_, ompipe_status_text(phase.status));
    }
    return nullptr;
  }

  const OrtApi& api_;
  int32_t elements_;
  Memory layout_, packed_;
  int64_t k_ = 0, n_ = 0;
  bool has_bias_ = false;
};

template <int32_t elements>
OrtStatus* create(const OrtCustomOp*, const OrtApi* api, const OrtKernelInfo* info, void** kernel) {
  auto made = std::make_unique<Kernel>(*api, elements);
  OMPIPE_ORT_TRY(made->prepare(info));
  *kernel = made.release();
  return nullptr;
}

template <int32_t elements>
constexpr ONNXTensorElementDataType kRows =
    elements == OMPIPE_ELEMENTS_F16 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;

template <int32_t elements>
OrtCustomOp make_operator() {
  OrtCustomOp op = {};
  op.version = ORT_API_VERSION;
  op.GetName = [](const OrtCustomOp*) { return "MatMulNBits"; };
  op.GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
  op.GetInputTypeCount = [](const OrtCustomOp*) -> size_t { return kInputs; };
  op.GetInputType = [](const OrtCustomOp*, size_t input) {
    if (input == kA || input == kBias) return kRows<elements>;
    if (input == kB) return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    return input == kGroupIndex ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  };
  op.GetInputCharacteristic = [](const OrtCustomOp*, size_t input) {
    return input <= kScales ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  };
  op.GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
  op.GetOutputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
  op.GetOutputType = [](const OrtCustomOp*, size_t) { return kRows<elements>; };
  op.GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
  op.CreateKernelV2 = create<elements>;
  op.KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
    return static_cast<const Kernel*>(kernel)->compute(context);
  };
  op.KernelDestroy = [](void* kernel) { std::unique_ptr<Kernel> owner(static_cast<Kernel*>(kernel)); };
  op.GetStartVersion = [](const OrtCustomOp*) { return 1; };
  op.GetEndVersion = [](const OrtCustomOp*) { return 1; };
  return op;
}

}  // namespace

const OrtCustomOp* mat_mul_nbits_f32() {
  static const OrtCustomOp op = make_operator<OMPIPE_ELEMENTS_F32>();
  return &op;
}

const OrtCustomOp* mat_mul_nbits_f16() {
  static const OrtCustomOp op = make_operator<OMPIPE_ELEMENTS_F16>();
  return &op;
}

}  // namespace ompipe_ort
