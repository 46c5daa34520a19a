// A mutex that clang's thread-safety analysis understands (libstdc++'s carries no annotations), and the attributes for
// data.
#pragma once

#include <mutex>

#if defined(__clang__)
#define OMPIPE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define OMPIPE_THREAD_ANNOTATION(x)
#endif
#define OMPIPE_GUARDED_BY(mutex) OMPIPE_THREAD_ANNOTATION(guarded_by(mutex))
#define OMPIPE_REQUIRES(mutex) OMPIPE_THREAD_ANNOTATION(requires_capability(mutex))
#define OMPIPE_EXCLUDES(mutex) OMPIPE_THREAD_ANNOTATION(locks_excluded(mutex))

namespace ompipe {

// std::mutex with attributes; BasicLockable, so std::condition_variable_any takes it.
class OMPIPE_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() OMPIPE_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() OMPIPE_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Holds a Mutex for a scope.
class OMPIPE_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) OMPIPE_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() OMPIPE_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace ompipe
