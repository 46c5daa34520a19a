// One start: `node first_logits.js MODEL THREADS PROMPT [LOGITS.npy]`, PROMPT as 1,2,3. Prints one JSON object with the
// times (CLOCK_MONOTONIC, ns) at which the script began, the library was loaded, the session was made, and the prompt's
// logits were there. startup.py calls it.
'use strict';
const now = () => Number(process.hrtime.bigint());
const clock_ns = { script: now() };
const ort = require('onnxruntime-node');
const npy = require('./npy.js');
const { decode } = require('./decoder.js');
clock_ns.library = now();

async function main([model, threads, prompt, logitsFile]) {
  const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    executionProviders: ['cpu'],
  });
  clock_ns.session = now();
  const { tokens } = await decode(session, prompt.split(',').map(Number), 1, (_, logits) => {
    clock_ns.first_logits = now();
    if (logitsFile) npy.write(logitsFile, { type: 'float32', dims: [logits.length], data: logits });
  });
  const engine = { onnxruntime: ort.env.versions.node, node: process.version };
  console.log(JSON.stringify({ clock_ns, tokens, engine, peak_rss: process.resourceUsage().maxRSS * 1024 }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`first_logits.js: ${error.message}`);
  process.exitCode = 1;
});
