// Random numbers of the element types that weights and activations have, written as bytes, and their values.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ompipe_kernels.h"

static inline uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static inline float random_float(uint32_t* state) { return (float)next_random(state) / (1 << 23) - 1; }

static inline double half_value(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
  return half >> 15 ? -magnitude : magnitude;
}

// Normal ones below 2.
static inline uint16_t random_half(uint32_t* random) {
  return (uint16_t)((next_random(random) & 1) << 15 | (10 + next_random(random) % 6) << 10 |
                    (next_random(random) & 1023));
}

// The element of a float format, OMPIPE_WEIGHT_F32 and so on, at `at`.
static inline double element_value(const unsigned char* at, int32_t format) {
  uint16_t bits;
  memcpy(&bits, at, sizeof bits);
  if (format == OMPIPE_WEIGHT_F16) return half_value(bits);
  uint32_t whole = (uint32_t)bits << 16;
  if (format == OMPIPE_WEIGHT_F32) memcpy(&whole, at, sizeof whole);
  float value;
  memcpy(&value, &whole, sizeof value);
  return value;
}

// Writes a random one, below 1 (halves 2), and returns its value.
static inline double random_element(unsigned char* at, int32_t format, uint32_t* random) {
  const float value = random_float(random);
  uint32_t whole;
  memcpy(&whole, &value, sizeof whole);
  const uint16_t bits = format == OMPIPE_WEIGHT_F16 ? random_half(random) : (uint16_t)(whole >> 16);
  if (format == OMPIPE_WEIGHT_F32) {
    memcpy(at, &value, sizeof value);
  } else {
    memcpy(at, &bits, sizeof bits);
  }
  return element_value(at, format);
}
