// ONNX Runtime on one model: `node ort.js decode|run MODEL ...`; README.md has the options. Prints one JSON object.
'use strict';
const fs = require('fs');
const path = require('path');
const { parseArgs } = require('util');
const ort = require('onnxruntime-node');
const npy = require('./npy.js');
const inputs = require('./inputs.js');
const summary = require('./summary.js');
const { decode, seconds } = require('./decoder.js');

const OPTIONS = {
  threads: { type: 'string', default: '1' },
  optimize: { type: 'string', default: 'all' },
  // decode
  prompt: { type: 'string' },
  steps: { type: 'string', default: '32' },
  logits: { type: 'string' },
  'first-logits': { type: 'string' },
  top: { type: 'string', default: '0' },
  // run
  input: { type: 'string', multiple: true, default: [] },
  output: { type: 'string' },
  first: { type: 'string', default: '0' },
  runs: { type: 'string', default: '1' },
};

async function open(model, options) {
  const start = seconds();
  const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: Number(options.threads),
    interOpNumThreads: 1,
    graphOptimizationLevel: options.optimize,
    executionProviders: ['cpu'],
  });
  return { session, create_s: seconds() - start };
}

const peakRss = () => process.resourceUsage().maxRSS * 1024;

async function runDecoder(model, options) {
  const { session, create_s } = await open(model, options);
  const prompt = options.prompt.split(',').map(Number);
  const logits = options.logits && fs.openSync(options.logits, 'w');
  const steps = [];
  const { tokens, run_s } = await decode(session, prompt, Number(options.steps), (step, last) => {
    if (logits) fs.writeSync(logits, Buffer.from(last.buffer, last.byteOffset, last.byteLength));
    if (step === 0 && options['first-logits']) {
      npy.write(options['first-logits'], { type: 'float32', dims: [last.length], data: last });
    }
    if (Number(options.top)) steps.push({ norm: summary.norm(last), top: summary.top(last, Number(options.top)) });
  });
  if (logits) fs.closeSync(logits);
  const timing = { create_s, first_run_s: run_s[0], token_s: run_s.slice(1), peak_rss: peakRss() };
  return { prompt, tokens, steps, timing };
}

async function runModel(model, options) {
  const { session, create_s } = await open(model, options);
  const feeds = {}, rules = {};
  for (const given of options.input) {
    const [name, rule] = [given.slice(0, given.indexOf('=')), given.slice(given.indexOf('=') + 1)];
    feeds[name] = rule.endsWith('.npy') ? npy.read(rule) : inputs.parse(rule);
    rules[name] = rule;
  }
  const run_s = [];
  let results;
  for (let run = 0; run < Number(options.runs); ++run) {
    const start = seconds();
    results = await session.run(feeds);
    run_s.push(seconds() - start);
  }
  const outputs = {};
  for (const name of session.outputNames) {
    outputs[name] = summary.describe(results[name], Number(options.first));
    if (options.output) {
      fs.mkdirSync(options.output, { recursive: true });
      npy.write(path.join(options.output, `${name.replace(/[^A-Za-z0-9._-]/g, '_')}.npy`), results[name]);
    }
  }
  const timing = { create_s, first_run_s: run_s[0], later_run_s: run_s.slice(1), peak_rss: peakRss() };
  return { inputs: rules, outputs, timing };
}

async function main() {
  const { values: options, positionals: [command, model] } = parseArgs({ options: OPTIONS, allowPositionals: true });
  const commands = { decode: runDecoder, run: runModel };
  if (!commands[command] || !model || (command === 'decode' && !options.prompt)) {
    throw new Error('usage: node ort.js decode MODEL --prompt 1,2,3 [options] | run MODEL --input NAME=RULE [options]');
  }
  const result = await commands[command](model, options);
  const engine = {
    onnxruntime: ort.env.versions.node,
    node: process.version,
    threads: Number(options.threads),
    optimize: options.optimize,
  };
  console.log(JSON.stringify({ engine, ...result }));
}

main().catch((error) => {
  console.error(`ort.js: ${error.message}`);
  process.exitCode = 1;
});
