// What a golden keeps of a long row of numbers.
'use strict';

function norm(values) {
  let sum = 0;
  for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

// The n largest elements with their places, largest first.
function top(values, n) {
  const ids = Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b).slice(0, n);
  return { ids, values: ids.map((id) => values[id]) };
}

function describe(tensor, firsts) {
  const values = Array.from(tensor.data);
  return {
    dims: tensor.dims,
    sum: values.reduce((sum, value) => sum + value, 0),
    norm: norm(values),
    finite: values.every(Number.isFinite),
    first: values.slice(0, firsts),
  };
}

module.exports = { norm, top, describe };
