#include "ompipe/io/file_checksum.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ompipe/io/limits.h"

namespace ompipe::io {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::string to_hex(std::span<const unsigned char> bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) hex += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return hex;
}

}  // namespace

bool is_sha1_checksum(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  return text.size() == 40 && std::all_of(text.begin(), text.end(), is_hex);
}

Result<std::string> sha1_of(const FileHandle& file) {
  const auto failure = [&](const char* reason, uint64_t got, int errno_value) {
    return Error{.phase = "checksum",
                 .subject = "",
                 .reason = reason,
                 .file = file.path(),
                 .offset = 0,
                 .length = file.size_bytes(),
                 .got = got,
                 .errno_value = errno_value};
  };
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha1(), nullptr) != 1) {
    return failure("the cryptographic library offers no SHA-1", 0, 0);
  }
  std::vector<std::byte> buffer(kSliceBytes);
  for (uint64_t got = 0; got < file.size_bytes();) {
    const uint64_t wanted = std::min<uint64_t>(buffer.size(), file.size_bytes() - got);
    const ssize_t bytes = pread(file.descriptor(), buffer.data(), wanted, static_cast<off_t>(got));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return failure("cannot be read", got, errno);
    if (bytes == 0) return failure("the file ended early", got, 0);
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(bytes));
    got += static_cast<uint64_t>(bytes);
  }
  std::array<unsigned char, 20> digest;
  EVP_DigestFinal_ex(context.get(), digest.data(), nullptr);
  return to_hex(digest);
}

}  // namespace ompipe::io
