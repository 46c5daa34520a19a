// What ompipe::MatMulNBits gives, compared with naive products and with com.microsoft::MatMulNBits.
#pragma once

#include "model.h"

// `count` random numbers within 1, rounded to float16 for such rows.
std::vector<float> random_rows(int64_t count, Element rows);

// m rows through both operators in one model, and the first weight's product against a naive one. Prints how much the
// outputs differ; false if they differ by more than they may.
bool outputs_agree(const Ort& ort, const std::string& library, const std::vector<Weight>& weights, int64_t m);

// The same for every number of bits, kind of zero points, type of scales and of rows, at both levels, with and without
// a bias. What com.microsoft refuses is compared with the naive product alone, and must be refused still.
bool check_formats(const Ort& ort, const std::string& library);

// A weight that no kernel takes is refused with the kernels' reason, and what the operator itself can't take with its
// own.
bool check_refusals(const Ort& ort, const std::string& library);
