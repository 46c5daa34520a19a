// A session in its steady state: `node steady.js MODEL THREADS PROMPT TOKENS PASSES`, PROMPT as 1,2,3. Decodes the prompt
// and TOKENS - 1 more tokens PASSES times in one session and prints one JSON object: `tokens`, and `passes`, the seconds
// of every run of each. steady.py calls it.
'use strict';
const ort = require('onnxruntime-node');
const { decode } = require('./decoder.js');

async function main([model, threads, prompt, tokens, passes]) {
  const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    executionProviders: ['cpu'],
  });
  const ids = prompt.split(',').map(Number);
  const decoded = [];
  for (let pass = 0; pass < Number(passes); ++pass) decoded.push(await decode(session, ids, Number(tokens)));
  const engine = { onnxruntime: ort.env.versions.node, node: process.version };
  console.log(JSON.stringify({ tokens: decoded[0].tokens, passes: decoded.map(({ run_s }) => run_s), engine }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`steady.js: ${error.message}`);
  process.exitCode = 1;
});
