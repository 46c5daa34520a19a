// Writes the goldens of MatMulNBits at accuracy level 4: `node mat_mul_nbits.js GOLDEN_DIR`. make_goldens.sh calls it.
// tests/goldens/README.md says how a case's operands follow from its seed, so that a golden holds results only.
'use strict';
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');
const npy = require('./npy.js');
const inputs = require('./inputs.js');
const oneNode = require('./one_node.js');

const LEVEL = 4, NAME = 'mat_mul_nbits-acc4';

// [K, N]: whole blocks, an odd number of them, not a multiple of the block, less than one block; N around groups of
// columns.
const SHAPES = [[64, 64], [512, 96], [224, 48], [200, 35], [20, 17]];

function* cases() {
  let seed = 1;
  for (const block of [32, 16, 64, 128]) {
    for (const [k, n] of block === 32 ? SHAPES : [[512, 96], [200, 35]]) {
      for (const zero_points of [false, true]) {
        for (const m of block === 32 ? [1, 3, 8] : [1, 3]) {
          yield { m, k, n, block, zero_points, bias: m === 3, seed: seed++ };
        }
      }
    }
  }
}

// The operands, drawn one after another from inputs.js' generator.
function operands({ m, k, n, block, zero_points, bias, seed }) {
  const next = inputs.generator(seed);
  const blocks = Math.ceil(k / block);
  // Runs of 32 elements of a row differ in size by up to 8, and one in five is zero.
  const factor = (run) => (run % 5 === 4 ? 0 : 2 ** (run % 4));
  return {
    a: new Float32Array(m * k).map((_, i) => inputs.uniform(next()) * factor(Math.floor((i % k) / 32))),
    b: new Uint8Array(n * blocks * block / 2).map(() => next() >>> 24),
    scales: new Float32Array(n * blocks).map(() => ((next() >>> 16) - 32767.5) / 524288),
    zeros: zero_points ? new Uint8Array(n * Math.ceil(blocks / 2)).map(() => next() >>> 24) : null,
    offsets: bias ? new Float32Array(n).map(() => inputs.uniform(next())) : null,
  };
}

async function product(one) {
  const { m, k, n, block } = one, blocks = Math.ceil(k / block);
  const { a, b, scales, zeros, offsets } = operands(one);
  const model = oneNode.model({
    domain: 'com.microsoft',
    opType: 'MatMulNBits',
    attributes: { K: k, N: n, bits: 4, block_size: block, accuracy_level: LEVEL },
    inputs: [
      { name: 'a', type: 'float32', dims: [m, k] },
      { name: 'b', type: 'uint8', dims: [n, blocks, block / 2], data: b },
      { name: 'scales', type: 'float32', dims: [n, blocks], data: scales },
      zeros && { name: 'zero_points', type: 'uint8', dims: [n, Math.ceil(blocks / 2)], data: zeros },
      null,
      offsets && { name: 'bias', type: 'float32', dims: [n], data: offsets },
    ],
    output: { name: 'y', type: 'float32', dims: [m, n] },
  });
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1, interOpNumThreads: 1 });
  const { y } = await session.run({ a: new ort.Tensor('float32', a, [m, k]) });
  await session.release();
  return y.data;
}

async function main([goldenDir]) {
  if (!goldenDir) throw new Error('usage: node mat_mul_nbits.js GOLDEN_DIR');
  const results = [], rows = [];
  for (const one of cases()) {
    rows.push(JSON.stringify(one));
    results.push(...await product(one));
  }
  const y = Float32Array.from(results);
  npy.write(path.join(goldenDir, `${NAME}.npy`), { type: 'float32', dims: [y.length], data: y });
  const head = `  "accuracy_level": ${LEVEL},\n  "onnxruntime": ${JSON.stringify(ort.env.versions.node)},\n`;
  fs.writeFileSync(path.join(goldenDir, `${NAME}.json`), `{\n${head}  "cases": [\n    ${rows.join(',\n    ')}\n  ]\n}\n`);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`mat_mul_nbits.js: ${error.message}`);
  process.exitCode = 1;
});
