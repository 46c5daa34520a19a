// Inputs that a golden or a measurement can state in a few words.
'use strict';
const ort = require('onnxruntime-node');

const count = (dims) => dims.reduce((product, size) => product * size, 1);

// Numerical Recipes' 32-bit generator, so that inputs need no library to be made again:
// x' = 1664525 x + 1013904223 mod 2^32, from x = seed. Each call gives the next x.
function generator(seed) {
  let x = seed >>> 0;
  return () => (x = (Math.imul(x, 1664525) + 1013904223) >>> 0);
}

// In [-1, 1), rounded when it is stored.
const uniform = (x) => x / 2147483648 - 1;

// Element i is the i-th x of the generator, as float32.
function random(seed, dims) {
  const next = generator(seed);
  const data = new Float32Array(count(dims)).map(() => uniform(next()));
  return new ort.Tensor('float32', data, dims);
}

// int64 elements (i * a + b) % m.
function linear(a, b, m, dims) {
  const data = BigInt64Array.from({ length: count(dims) }, (_, i) => BigInt((i * a + b) % m));
  return new ort.Tensor('int64', data, dims);
}

// "random:SEED:2x4096" or "linear:A:B:M:1x16".
function parse(text) {
  const parts = text.split(':');
  const dims = parts.at(-1).split('x').map(Number);
  const numbers = parts.slice(1, -1).map(Number);
  if (parts[0] === 'random' && numbers.length === 1) return random(numbers[0], dims);
  if (parts[0] === 'linear' && numbers.length === 3) return linear(...numbers, dims);
  throw new Error(`input rule '${text}' is neither random:SEED:DIMS nor linear:A:B:M:DIMS`);
}

module.exports = { generator, parse, uniform };
