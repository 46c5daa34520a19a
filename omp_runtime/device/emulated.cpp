#include "ompipe/device/emulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "ompipe/arenas/start_thread.h"

namespace ompipe::device {
namespace {

uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

std::byte* pointer(Address address) { return reinterpret_cast<std::byte*>(uint64_t(address)); }

uint64_t aligned(uint64_t bytes) {
  return (bytes + kernels::kAlignmentBytes - 1) / kernels::kAlignmentBytes * kernels::kAlignmentBytes;
}

kernels::MatMulArgs arguments_of(const Product& product) {
  kernels::MatMulArgs arguments;
  arguments.layout = product.layout;
  arguments.packed = pointer(product.packed);
  arguments.m = product.m;
  arguments.a = reinterpret_cast<const float*>(pointer(product.a));
  arguments.lda = product.layout->spec.k;
  arguments.out = reinterpret_cast<float*>(pointer(product.out));
  arguments.ldc = product.layout->spec.n;
  return arguments;
}

}  // namespace

void EmulatedBackend::Free::operator()(std::byte* bytes) const { std::free(bytes); }

EmulatedBackend::EmulatedBackend(const EmulatedOptions& options)
    : options_(options),
      // It packs and multiplies as the CPU's kernels do, whose layout key stands beside this in a prepared key.
      description_{fmt::format("emulated:{}", options.ordinal), "emulated-1", options.memory_bytes, options.batches} {}

EmulatedBackend::~EmulatedBackend() { OMPIPE_CHECK(!thread_.joinable(), "a backend is destroyed while it is open"); }

bool EmulatedBackend::computes(const kernels::PackedLayout&) const { return true; }
bool EmulatedBackend::packs(const kernels::PackedLayout&) const { return options_.packs; }

uint64_t EmulatedBackend::workspace_bytes(const kernels::PackedLayout& layout, int64_t m) const {
  kernels::MatMulArgs arguments;
  arguments.layout = &layout;
  arguments.m = m;
  return aligned(uint64_t(kernels::shared_scratch_bytes(layout, m))) +
         aligned(kernels::matmul_call(arguments).tile_scratch_bytes);
}

Result<Address> EmulatedBackend::allocate(uint64_t bytes) {
  std::unique_ptr<std::byte[], Free> block(
      static_cast<std::byte*>(std::aligned_alloc(kernels::kAlignmentBytes, aligned(bytes))));
  if (!block) {
    return Error{.kind = ErrorKind::environment,
                 .phase = "device",
                 .subject = description_.id,
                 .reason = fmt::format("no memory for {} bytes", bytes)};
  }
  const auto address = reinterpret_cast<uint64_t>(block.get());
  MutexLock lock(memory_mutex_);
  blocks_.emplace(address, std::move(block));
  return Address(address);
}

void EmulatedBackend::free(Address address, uint64_t) {
  std::unique_ptr<std::byte[], Free> block;
  MutexLock lock(memory_mutex_);
  const auto found = blocks_.find(uint64_t(address));
  OMPIPE_CHECK(found != blocks_.end(), "not allocated on this device");
  block = std::move(found->second);
  blocks_.erase(found);
}

Status EmulatedBackend::open(EventSink& sink) {
  OMPIPE_CHECK(!thread_.joinable(), "a backend is used by one runtime at a time");
  sink_ = &sink;
  {
    MutexLock lock(mutex_);
    closing_ = false;
  }
  Result<std::thread> started = start_thread(description_.id, [this] { run(); });
  if (!started.ok()) return started.error();
  thread_ = *std::move(started);
  return ok_status();
}

bool EmulatedBackend::submit(Batch&& batch) {
  {
    MutexLock lock(mutex_);
    if (unfinished_ == options_.batches) return false;
    ++unfinished_;
    queue_.push_back(std::move(batch));
  }
  changed_.notify_one();
  return true;
}

void EmulatedBackend::close() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

// Its place in the queue is free when the event is told, so that who is told may submit the next.
void EmulatedBackend::run() {
  std::fesetenv(FE_DFL_ENV);  // as the team computes, whatever the host has set on the thread that opened it
  for (;;) {
    Batch batch;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !closing_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      batch = std::move(queue_.front());
      queue_.pop_front();
    }
    Event event{.id = batch.id, .start_ns = clock_ns(CLOCK_MONOTONIC)};
    const uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (const Command& command : batch.commands) std::visit([&](const auto& one) { execute(one); }, command);
    event.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    event.end_ns = clock_ns(CLOCK_MONOTONIC);
    {
      MutexLock lock(mutex_);
      --unfinished_;
    }
    sink_->ended(std::move(event));
  }
}

// The rest of a transfer's time: nobody else waits on this, so the thread can't be woken early for good.
void EmulatedBackend::wait_until(uint64_t end_ns) {
  std::condition_variable time;
  std::mutex own;
  std::unique_lock lock(own);
  for (uint64_t now = clock_ns(CLOCK_MONOTONIC); now < end_ns; now = clock_ns(CLOCK_MONOTONIC))
    time.wait_for(lock, std::chrono::nanoseconds(end_ns - now));
}

void EmulatedBackend::transfer(std::byte* to, const std::byte* from, uint64_t bytes) {
  const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  std::memcpy(to, from, bytes);
  uint64_t modelled_ns = options_.latency_ns;
  if (options_.bytes_per_second > 0) modelled_ns += uint64_t(double(bytes) * 1e9 / double(options_.bytes_per_second));
  if (modelled_ns > 0) wait_until(start_ns + modelled_ns);
}

void EmulatedBackend::execute(const Upload& upload) { transfer(pointer(upload.to), upload.from, upload.bytes); }

void EmulatedBackend::execute(const Readback& readback) {
  transfer(readback.to, pointer(readback.from), readback.bytes);
}

void EmulatedBackend::execute(const Pack& pack) {
  kernels::pack_range(*pack.layout, {pointer(pack.source), pointer(pack.scales), pointer(pack.zero_points)}, 0,
                      pack.layout->source_bytes, pointer(pack.packed));
}

void EmulatedBackend::execute(const Product& product) {
  kernels::MatMulArgs arguments = arguments_of(product);
  arguments.shared_scratch = pointer(product.workspace);
  const kernels::TiledCall call = kernels::matmul_call(arguments);
  const uint64_t shared = aligned(uint64_t(kernels::shared_scratch_bytes(*product.layout, product.m)));
  kernels::run_serially(call, call.tile_scratch_bytes > 0 ? pointer(product.workspace + shared) : nullptr);
}

}  // namespace ompipe::device
