// Reads and writes .npy files (version 1.0, little-endian, C order) as ONNX Runtime tensors.
'use strict';
const fs = require('fs');
const ort = require('onnxruntime-node');

// numpy's descriptor, ONNX Runtime's type and the array that holds it.
const TYPES = [
  ['<f4', 'float32', Float32Array],
  ['<f8', 'float64', Float64Array],
  ['<f2', 'float16', Uint16Array],
  ['<i8', 'int64', BigInt64Array],
  ['<i4', 'int32', Int32Array],
  ['|u1', 'uint8', Uint8Array],
  ['|i1', 'int8', Int8Array],
  ['|b1', 'bool', Uint8Array],
];

function write(path, tensor) {
  const [descriptor] = TYPES.find(([, type]) => type === tensor.type);
  const dims = tensor.dims.length === 1 ? `${tensor.dims[0]},` : tensor.dims.join(', ');
  let header = `{'descr': '${descriptor}', 'fortran_order': False, 'shape': (${dims}), }`;
  header += ' '.repeat((64 - ((10 + header.length + 1) % 64)) % 64) + '\n';
  const start = Buffer.alloc(10);
  start.write('\x93NUMPY\x01\x00', 'latin1');
  start.writeUInt16LE(header.length, 8);
  const { buffer, byteOffset, byteLength } = tensor.data;
  const body = Buffer.from(buffer, byteOffset, byteLength);
  fs.writeFileSync(path, Buffer.concat([start, Buffer.from(header, 'latin1'), body]));
}

function read(path) {
  const file = fs.readFileSync(path);
  const wide = file[6] >= 2;  // version 2 and 3 have a 4-byte header length
  const length = wide ? file.readUInt32LE(8) : file.readUInt16LE(8);
  const start = wide ? 12 : 10;
  const header = file.toString('latin1', start, start + length);
  const descriptor = /'descr':\s*'([^']+)'/.exec(header)[1];
  const found = TYPES.find(([name]) => name === descriptor);
  if (!found || /'fortran_order':\s*True/.test(header)) {
    throw new Error(`${path}: unsupported .npy header ${header.trim()}`);
  }
  const dims = /'shape':\s*\(([^)]*)\)/.exec(header)[1].split(',').map((d) => d.trim()).filter(Boolean).map(Number);
  const bytes = file.subarray(start + length);
  const data = new found[2](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  return new ort.Tensor(found[1], data, dims);
}

module.exports = { read, write };
