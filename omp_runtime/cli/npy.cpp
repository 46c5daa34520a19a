#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "ompipe/cli/tensor_file.h"
#include "ompipe/io/atomic_file.h"
#include "ompipe/kernels/strided.h"

namespace ompipe::cli {

namespace {

using model::DType;

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyType {
  std::string_view descr;
  DType dtype;
};
constexpr NpyType kTypes[] = {{"<f4", DType::f32},     {"<f2", DType::f16}, {"<f8", DType::f64}, {"|V2", DType::bf16},
                              {"|b1", DType::boolean}, {"|u1", DType::u8},  {"|i1", DType::i8},  {"<u2", DType::u16},
                              {"<i2", DType::i16},     {"<u4", DType::u32}, {"<i4", DType::i32}, {"<u8", DType::u64},
                              {"<i8", DType::i64}};

Error npy_error(const std::string& path, std::string reason) {
  return {.kind = ErrorKind::usage, .phase = "npy", .reason = std::move(reason), .file = path};
}

// The header is a Python dictionary literal; this reads the three entries that it always has, in any order.
std::optional<std::string_view> header_value(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    at = header.find(':', at + quoted.size());
    if (at == std::string_view::npos) continue;
    const size_t begin = header.find_first_not_of(' ', at + 1);
    if (begin == std::string_view::npos) continue;
    return header.substr(begin);
  }
  return std::nullopt;
}

std::optional<model::Shape> parse_shape(std::string_view text) {
  if (text.empty() || text.front() != '(') return std::nullopt;
  const size_t close = text.find(')');
  if (close == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(1, close - 1);
  model::Shape shape;
  while (true) {
    const size_t begin = rest.find_first_not_of(" ,");
    if (begin == std::string_view::npos) return shape;
    rest.remove_prefix(begin);
    int64_t dim = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
    if (error != std::errc() || dim < 0) return std::nullopt;
    rest.remove_prefix(size_t(end - rest.data()));
    if (!rest.empty() && rest.front() == 'L') rest.remove_prefix(1);  // Python 2 wrote long integers so
    if (!rest.empty() && rest.front() != ',' && rest.front() != ' ') return std::nullopt;
    shape.push_back(dim);
  }
}

// Nothing when it overflows.
std::optional<uint64_t> shape_bytes(const model::Shape& shape, size_t element) {
  uint64_t bytes = element;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, uint64_t(dim), &bytes)) return std::nullopt;
  }
  return bytes;
}

struct Header {
  std::string_view text;
  size_t data_offset = 0;
};

Result<Header> find_header(std::span<const std::byte> bytes, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) return npy_error(path, "does not begin as a .npy file does");
  if (text.size() < 10) return npy_error(path, "ends inside its header");
  const int major = text[6];
  if (major < 1 || major > 3) return npy_error(path, "has .npy version " + std::to_string(major) + ", expected 1 to 3");
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (text.size() < 8 + length_bytes) return npy_error(path, "ends inside its header");
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= uint64_t(static_cast<unsigned char>(text[8 + i])) << (8 * i);
  const size_t begin = 8 + length_bytes;
  if (length > text.size() - begin) return npy_error(path, "ends inside its header");
  return Header{text.substr(begin, length), begin + size_t(length)};
}

}  // namespace

Result<exec::HeldTensor> parse_npy(std::span<const std::byte> bytes, const std::string& path) {
  const Result<Header> header = find_header(bytes, path);
  if (!header) return header.error();
  const auto descr = header_value(header->text, "descr");
  const auto order = header_value(header->text, "fortran_order");
  const auto shape_value = header_value(header->text, "shape");
  if (!descr || !order || !shape_value) return npy_error(path, "has a header without descr, fortran_order and shape");

  const NpyType* type = nullptr;
  const std::string_view quoted = descr->substr(0, 5);
  for (const NpyType& candidate : kTypes) {
    if (quoted.size() == 5 && quoted.substr(1, 3) == candidate.descr) type = &candidate;
  }
  if (!type) {
    return npy_error(path, "has dtype " + std::string(descr->substr(0, descr->find_first_of(",}"))) +
                               ", which no little-endian ONNX type matches");
  }
  const std::optional<model::Shape> shape = parse_shape(*shape_value);
  if (!shape) return npy_error(path, "has a shape that is no tuple of sizes");
  if (shape->size() > size_t(kernels::kMaxRank)) return npy_error(path, "has more than 8 dimensions");
  if (!order->starts_with("False") && shape->size() > 1)
    return npy_error(path, "is in Fortran order, expected C order");

  const std::optional<uint64_t> wanted = shape_bytes(*shape, model::dtype_bytes(type->dtype));
  const uint64_t found = bytes.size() - header->data_offset;
  if (!wanted || *wanted != found) {
    Error error = npy_error(path, wanted ? "holds " + std::to_string(found) + " bytes of elements, its shape says " +
                                               std::to_string(*wanted)
                                         : std::string("has a shape of more than 2^64 bytes"));
    return error;
  }
  Result<exec::HeldTensor> tensor = make_owned_tensor(type->dtype, *shape, path);
  if (!tensor) return tensor;
  if (found != 0) std::memcpy(tensor->view.data, bytes.data() + header->data_offset, found);
  return tensor;
}

std::string npy_header(DType dtype, std::span<const int64_t> shape) {
  std::string_view descr;
  for (const NpyType& type : kTypes) {
    if (type.dtype == dtype) descr = type.descr;
  }
  OMPIPE_CHECK(!descr.empty(), "a dtype that .npy can't hold");
  std::string dictionary = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (const int64_t dim : shape) dictionary += std::to_string(dim) + ",";
  dictionary += "), }";
  constexpr size_t kPreamble = 10;  // magic, version, length
  dictionary.append(63 - (kPreamble + dictionary.size()) % 64, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\x00';
  header += char(dictionary.size() & 0xff);
  header += char(dictionary.size() >> 8);
  return header + dictionary;
}

Status write_npy(const std::string& path, const exec::Tensor& tensor) {
  io::FileOperations operations;
  Result<io::AtomicFile> file = io::AtomicFile::create(path, operations);
  if (!file) return file.error();
  const std::string header = npy_header(tensor.dtype, tensor.shape());
  if (Status status = file->write(std::as_bytes(std::span(header))); !status) return status;
  if (Status status = file->write(dense_bytes(tensor)); !status) return status;
  const Result<io::FileIdentity> published = file->publish([](const auto&) { return ok_status(); });
  if (!published) return published.error();
  return ok_status();
}

}  // namespace ompipe::cli
