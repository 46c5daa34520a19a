// An ONNX model of one node, as bytes: ir_version, opsets and a graph, in protobuf's wire format.
'use strict';

const ELEMENT_TYPES = { float32: 1, uint8: 2 };

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  bytes.push(value);
  return Buffer.from(bytes);
}

const integer = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);

// Text, bytes or an inner message (an array of fields).
function bytes(field, value) {
  const body = Array.isArray(value) ? Buffer.concat(value) : Buffer.from(value);
  return Buffer.concat([varint(field * 8 + 2), varint(body.length), body]);
}

// ValueInfoProto of a tensor with known dims.
const valueInfo = ({ name, type, dims }) => [
  bytes(1, name),
  bytes(2, [bytes(1, [integer(1, ELEMENT_TYPES[type]), bytes(2, dims.map((dim) => bytes(1, [integer(1, dim)])))])]),
];

// TensorProto; `data` is a typed array.
const tensor = ({ name, type, dims, data }) => [
  ...dims.map((dim) => integer(1, dim)),
  integer(2, ELEMENT_TYPES[type]),
  bytes(8, name),
  bytes(9, Buffer.from(data.buffer, data.byteOffset, data.byteLength)),
];

// AttributeProto of type INT; never negative here.
const attribute = ([name, value]) => [bytes(1, name), integer(3, value), integer(20, 2)];

// `inputs` in the node's order: { name, type, dims, data }, fed if it has no data, null if it is left out.
function model({ domain, opType, attributes, inputs, output }) {
  const present = inputs.filter(Boolean);
  const node = [
    ...inputs.map((input) => bytes(1, input ? input.name : '')),
    bytes(2, output.name),
    bytes(4, opType),
    ...Object.entries(attributes).map((entry) => bytes(5, attribute(entry))),
    bytes(7, domain),
  ];
  const graph = [
    bytes(1, node),
    bytes(2, opType),
    ...present.filter((input) => input.data).map((input) => bytes(5, tensor(input))),
    ...present.filter((input) => !input.data).map((input) => bytes(11, valueInfo(input))),
    bytes(12, valueInfo(output)),
  ];
  const opset = (name, version) => bytes(8, [bytes(1, name), integer(2, version)]);
  return Buffer.concat([integer(1, 8), opset('', 17), opset(domain, 1), bytes(7, graph)]);
}

module.exports = { model };
