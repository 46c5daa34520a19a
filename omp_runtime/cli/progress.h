// What a person at a terminal sees while something takes its time.
#pragma once

#include <string>

namespace ompipe::cli {

// One line on stderr that each call overwrites and the end removes; nothing at all unless stderr is a terminal. Any
// thread may call show(), lines of two threads may mix.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& text) const;

 private:
  const bool shown_;
};

}  // namespace ompipe::cli
