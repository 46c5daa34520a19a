// Runs a decoder with KV inputs and outputs, one greedy token after another.
'use strict';
const ort = require('onnxruntime-node');

const seconds = () => Number(process.hrtime.bigint()) / 1e9;

function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; ++i) if (values[i] > values[best]) best = i;
  return best;
}

// The empty cache that the first run gets: every past input with length 0.
function emptyCache(session) {
  const cache = {};
  for (const input of session.inputMetadata) {
    if (!input.name.startsWith('past_key_values.')) continue;
    const [, heads, , width] = input.shape;
    cache[input.name] = new ort.Tensor('float32', new Float32Array(0), [1, heads, 0, width]);
  }
  return cache;
}

// Greedy decoding of one row. Calls `each(step, logits)` with the logits of the last position of every run, valid until
// it returns. Gives the tokens, and the seconds of every run: the first is the prompt's.
async function decode(session, prompt, steps, each = () => {}) {
  const tokens = [], run_s = [];
  let cache = emptyCache(session), fed = prompt, total = 0;
  for (let step = 0; step < steps; ++step) {
    total += fed.length;
    const feeds = {
      input_ids: new ort.Tensor('int64', BigInt64Array.from(fed, BigInt), [1, fed.length]),
      attention_mask: new ort.Tensor('int64', new BigInt64Array(total).fill(1n), [1, total]),
      ...cache,
    };
    const start = seconds();
    const results = await session.run(feeds);
    run_s.push(seconds() - start);
    const vocab = results.logits.dims[2];
    const last = results.logits.data.subarray((fed.length - 1) * vocab, fed.length * vocab);
    each(step, last);
    fed = [argmax(last)];
    tokens.push(fed[0]);
    cache = {};
    for (const name of session.outputNames) {
      if (name.startsWith('present.')) cache[name.replace('present', 'past_key_values')] = results[name];
    }
  }
  return { tokens, run_s };
}

module.exports = { decode, seconds };
