// How often this process has asked for heap memory. A program that links this has its allocation functions counted.
#pragma once

#include <cstdint>

namespace ompipe::cli {

// Calls of malloc and its relatives so far, of every thread, operator new's among them. Any thread.
uint64_t heap_allocations();

}  // namespace ompipe::cli
