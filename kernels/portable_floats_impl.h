// Products of few rows with float weights straight from the file's layout, for any vector type.
#pragma once

#include "matmul_floats_impl.h"
#include "matmul_kernels.h"
#include "pack_floats_impl.h"

namespace ompipe::kernels {

// B [K, N], columns [begin, end): the sums of a stretch of columns stay in L1 while a few rows of B pass over them at
// once, so that memory is read in runs of 1 KiB.
template <class V, WeightFormat format, int rows>
class DirectRows {
 public:
  DirectRows(const PortableArgs& args, int64_t begin, int64_t end, float* sums)
      : a_(float_rows<V>(args.product, 0)),
        k_(args.product.layout->spec.k),
        columns_(end - begin),
        row_bytes_(args.product.layout->spec.n * kElementBytes<format>),
        b_(args.sources.range + begin * kElementBytes<format>),
        sums_(sums) {}

  void multiply() {
    __builtin_memset(sums_, 0, rows * kDirectColumns * sizeof(float));
    constexpr int at_once = rows == 1 ? 8 : 4;
    int64_t k = 0;
    for (; k + at_once <= k_; k += at_once) {
      add<at_once>(k);
      // The next rows begin in pages that the hardware's prefetch hasn't seen.
      for (int i = 0; i < at_once; ++i) {
        for (int at = 0; at < 512; at += 64) V::prefetch(b_ + (k + at_once + i) * row_bytes_ + at);
      }
    }
    for (; k < k_; ++k) add<1>(k);
  }

 private:
  template <int count>
  void add(int64_t k) {
    const std::byte* b = b_ + k * row_bytes_;
    int64_t j = 0;
    for (; j + 8 <= columns_; j += 8) {
      typename V::Floats sums[rows];
      for (int r = 0; r < rows; ++r) sums[r] = V::load(sums_ + r * kDirectColumns + j);
#pragma GCC unroll 8
      for (int i = 0; i < count; ++i) {
        const auto line = load_elements<V, format>(b + i * row_bytes_ + j * kElementBytes<format>);
        for (int r = 0; r < rows; ++r) sums[r] = V::fma(V::broadcast(a_.data[r * a_.stride + k + i]), line, sums[r]);
      }
      for (int r = 0; r < rows; ++r) V::store(sums_ + r * kDirectColumns + j, sums[r]);
    }
    for (; j < columns_; ++j) {
      for (int i = 0; i < count; ++i) {
        const float value = load_element<V, format>(b + i * row_bytes_ + j * kElementBytes<format>);
        for (int r = 0; r < rows; ++r) {
          float& sum = sums_[r * kDirectColumns + j];
          sum = V::scalar_fma(a_.data[r * a_.stride + k + i], value, sum);
        }
      }
    }
  }

  const FloatRows a_;
  const int64_t k_, columns_, row_bytes_;
  const std::byte* const b_;
  float* const sums_;
};

// B [N, K]: 16 columns, of which `columns` exist, in blocks of 8 x 8 that are transposed in registers. Two chains of
// FMAs for each row hide their latency.
template <class V, WeightFormat format, int rows>
void dot_columns(const PortableArgs& args, int64_t column, int64_t columns, float* sums_out) {
  const FloatRows a = float_rows<V>(args.product, 0);
  const int64_t k_count = args.product.layout->spec.k, stride = k_count * kElementBytes<format>;
  const std::byte* b = args.sources.range + column * stride;
  typename V::Floats sums[rows][2];
  for (int r = 0; r < rows; ++r) sums[r][0] = sums[r][1] = V::zero();
  const auto add_block = [&](int64_t k, int half) __attribute__((always_inline)) {
    typename V::Floats block[8];
    for (int j = 0; j < 8; ++j) {
      const std::byte* from = b + (8 * half + j) * stride + k * kElementBytes<format>;
      block[j] = 8 * half + j < columns ? load_elements<V, format>(from) : V::zero();
    }
    V::transpose(block);
    for (int i = 0; i < 8; ++i) {
      for (int r = 0; r < rows; ++r) {
        sums[r][half] = V::fma(V::broadcast(a.data[r * a.stride + k + i]), block[i], sums[r][half]);
      }
    }
  };
  // Eight columns for a stretch, then the other eight: the hardware's prefetch doesn't follow sixteen streams, and
  // lines of sixteen columns would collide in L1 where K is a power of two.
  constexpr int64_t kStretch = 1024;
  const int64_t whole = k_count / 8 * 8;
  int64_t k = 0;
  while (k < whole) {
    const int64_t begin = k, end = whole - k < kStretch ? whole : k + kStretch;
    for (int half = 0; half < 2; ++half) {
      for (k = begin; k < end; k += 8) add_block(k, half);
    }
  }
  for (int r = 0; r < rows; ++r) {
    float* out = sums_out + r * kPanelColumns;
    V::store(out, sums[r][0]);
    V::store(out + 8, sums[r][1]);
    for (int64_t i = k; i < k_count; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const float value = load_element<V, format>(b + j * stride + i * kElementBytes<format>);
        out[j] = V::scalar_fma(a.data[r * a.stride + i], value, out[j]);
      }
    }
  }
}

template <class V, WeightFormat format, int rows>
void floats_direct_of(const PortableArgs& args, int64_t begin, int64_t end, float* sums) {
  const auto write = [&](int64_t column, int64_t column_end, int64_t sums_stride) {
    for (int64_t n = column; n < column_end; n += 8) {
      write_out<V>(args.product, sums + (n - column), sums_stride, 0, rows, n, column_end - n < 8 ? column_end - n : 8);
    }
  };
  if (!args.product.layout->spec.trans_b) {
    DirectRows<V, format, rows>(args, begin, end, sums).multiply();
    return write(begin, end, kDirectColumns);
  }
  for (int64_t column = begin; column < end; column += kPanelColumns) {
    const int64_t columns = end - column < kPanelColumns ? end - column : kPanelColumns;
    dot_columns<V, format, rows>(args, column, columns, sums);
    write(column, column + columns, kPanelColumns);
  }
}

template <class V, WeightFormat format>
void floats_direct_rows(const PortableArgs& args, int64_t begin, int64_t end, float* sums) {
  switch (args.product.m) {
    case 1:
      return floats_direct_of<V, format, 1>(args, begin, end, sums);
    case 2:
      return floats_direct_of<V, format, 2>(args, begin, end, sums);
    default:
      return floats_direct_of<V, format, 3>(args, begin, end, sums);
  }
}

template <class V>
void floats_direct_tile(const PortableArgs& args, int64_t begin, int64_t end, std::byte* scratch) {
  float* sums = reinterpret_cast<float*>(scratch);
  switch (args.product.layout->spec.format) {
    case WeightFormat::f16:
      return floats_direct_rows<V, WeightFormat::f16>(args, begin, end, sums);
    case WeightFormat::bf16:
      return floats_direct_rows<V, WeightFormat::bf16>(args, begin, end, sums);
    default:
      return floats_direct_rows<V, WeightFormat::f32>(args, begin, end, sums);
  }
}

}  // namespace ompipe::kernels
