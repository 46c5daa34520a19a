// Who keeps bytes alive: counted objects that can be used again when nobody refers to them, and references to them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace ompipe::exec {

// Counts the references to itself, so that one more needs no memory. What its holders have written is visible to
// whoever finds it unreferenced: a count falls by release and is read by acquire. Any thread.
class Counted {
 public:
  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) unreferenced();
  }
  bool referenced() const noexcept { return references_.load(std::memory_order_acquire) != 0; }

 protected:
  Counted() = default;
  ~Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  // The last reference is gone; on the thread that held it. May be followed by retain(), on any thread, at once.
  virtual void unreferenced() noexcept = 0;

 private:
  std::atomic<uint32_t> references_{0};
};

// A reference to a T, which is Counted. Copies share it; one object belongs to one thread at a time.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* counted) : counted_(counted) {
    if (counted_) counted_->retain();
  }
  Ref(const Ref& other) : Ref(other.counted_) {}
  Ref(Ref&& other) noexcept : counted_(std::exchange(other.counted_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(counted_, other.counted_);
    return *this;
  }
  ~Ref() { reset(); }

  void reset() {
    if (T* const left = std::exchange(counted_, nullptr)) left->release();
  }
  T* get() const { return counted_; }
  T& operator*() const { return *counted_; }
  T* operator->() const { return counted_; }
  explicit operator bool() const { return counted_ != nullptr; }
  friend bool operator==(const Ref&, const Ref&) = default;

 private:
  T* counted_ = nullptr;
};

// The owner of some bytes, whatever it is. Any shared_ptr becomes one, by an allocation.
class Owner : public Ref<Counted> {
 public:
  using Ref::Ref;
  template <class T>
  Owner(std::shared_ptr<T> shared) : Ref(shared ? std::make_unique<Shared>(std::move(shared)).release() : nullptr) {}

 private:
  class Shared final : public Counted {
   public:
    explicit Shared(std::shared_ptr<const void> shared) : shared_(std::move(shared)) {}

   private:
    void unreferenced() noexcept override { std::unique_ptr<Shared>(this).reset(); }
    const std::shared_ptr<const void> shared_;
  };
};

}  // namespace ompipe::exec
