// What a host program calls: one C function behind which ompipe runs a decoder's prompt, on OpenMP tasks and in
// sequence.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Runs the model's prompt with both schedulers and compares the logits bit for bit. Writes the file of the OpenMP
// library that served it, zero-terminated, to `library`. Returns 0, or 1 after a line on stderr. Any thread.
int ompipe_guest(const char* model, int threads, char* library, size_t library_bytes);

#ifdef __cplusplus
}
#endif
