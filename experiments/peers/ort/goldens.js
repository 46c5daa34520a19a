// Writes one golden: `node goldens.js PRESET ACCURACY_LEVEL SEED MODEL_DIR GOLDEN_DIR`.
// make_goldens.sh calls it for each.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');
const npy = require('./npy.js');
const inputs = require('./inputs.js');
const summary = require('./summary.js');
const { decode } = require('./decoder.js');

const PROMPT = [1, 17, 300, 4242, 8000, 77, 5, 2048];
const STEPS = 32, TOP = 8, FIRST = 64;

// Of the first run's logits, every so many are kept as .npy: distances over a sixteenth of 151936 say as much.
const LOGITS_EVERY = { 'tiny-int4': 1, 'qwen-0.5b-int4': 16 };

// Rules of inputs.js.
const FEEDS = {
  'mlp-f32-1g': { input: 'random:7:4x4096' },
  'bert-f32': {
    input_ids: 'linear:7:3:30522:2x16',
    attention_mask: 'linear:1:1:2:2x16',
    token_type_ids: 'linear:1:0:2:2x16',
  },
};

async function decoderGolden(session, every, file) {
  const steps = [];
  const { tokens } = await decode(session, PROMPT, STEPS, (step, logits) => {
    if (step === 0) {
      const kept = logits.filter((_, i) => i % every === 0);
      npy.write(file, { type: 'float32', dims: [kept.length], data: kept });
    }
    steps.push({ norm: summary.norm(logits), ...summary.top(logits, TOP) });
  });
  return { prompt: PROMPT, tokens, steps };
}

async function modelGolden(session, rules) {
  const feeds = Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, inputs.parse(rule)]));
  const results = await session.run(feeds);
  const outputs = Object.fromEntries(session.outputNames.map((name) => [name, summary.describe(results[name], FIRST)]));
  return { inputs: rules, outputs };
}

const sha256 = (file) => crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');

// One line for each top-level field, and for each element of an array of objects: small, and readable in a diff.
function lines(object) {
  const text = ([name, value]) => {
    const rows = Array.isArray(value) && typeof value[0] === 'object';
    const list = () => `[\n    ${value.map((row) => JSON.stringify(row)).join(',\n    ')}\n  ]`;
    return `  ${JSON.stringify(name)}: ${rows ? list() : JSON.stringify(value)}`;
  };
  return `{\n${Object.entries(object).map(text).join(',\n')}\n}\n`;
}

async function main([preset, level, seed, modelDir, goldenDir]) {
  const model = path.join(modelDir, 'model.onnx');
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1, interOpNumThreads: 1 });
  const name = FEEDS[preset] ? preset : `${preset}-acc${level}`;
  const found = FEEDS[preset] ? await modelGolden(session, FEEDS[preset])
    : await decoderGolden(session, LOGITS_EVERY[preset], path.join(goldenDir, `${name}.logits0.npy`));
  const golden = {
    preset,
    ...(FEEDS[preset] ? {} : { accuracy_level: Number(level) }),
    seed: Number(seed),
    onnx_sha256: sha256(model),
    data_sha256: sha256(path.join(modelDir, 'model.data')),
    onnxruntime: ort.env.versions.node,
    ...found,
  };
  fs.writeFileSync(path.join(goldenDir, `${name}.json`), lines(golden));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`goldens.js: ${error.message}`);
  process.exitCode = 1;
});
