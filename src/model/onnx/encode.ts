/** ONNX bytes of a model: intermediate representation 9, opset 18, plus the com.microsoft operators of onnxruntime. */
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  ELEMENT_TYPE,
  type OnnxAttribute,
  type OnnxGraph,
  type OnnxTensor,
  type OnnxValue,
} from './model.ts';
import {
  type AttributeProtoSchema,
  type GraphProtoSchema,
  ModelProtoSchema,
  type TensorProtoSchema,
  type ValueInfoProtoSchema,
} from './onnx_pb.ts';

/** The serialized model. */
export function encodeModel(graph: OnnxGraph): Uint8Array {
  const model = create(ModelProtoSchema, {
    irVersion: 9n,
    producerName: 'nostrain',
    graph: graphMessage(graph),
    opsetImport: [
      { domain: '', version: 18n },
      { domain: 'com.microsoft', version: 1n },
    ],
  });
  return toBinary(ModelProtoSchema, model);
}

function graphMessage(graph: OnnxGraph): MessageInitShape<typeof GraphProtoSchema> {
  return {
    name: graph.name,
    node: graph.nodes.map(({ type, inputs, outputs, attributes, domain }) => ({
      name: outputs[0] ?? '',
      opType: type,
      input: [...inputs],
      output: [...outputs],
      domain,
      attribute: Object.entries(attributes).map(([name, value]) => attribute(name, value)),
    })),
    initializer: graph.constants.map(tensor),
    input: graph.inputs.map(valueInfo),
    output: graph.outputs.map(valueInfo),
  };
}

/** Always with its type number, without which onnxruntime refuses the attribute. */
function attribute(
  name: string,
  value: OnnxAttribute,
): MessageInitShape<typeof AttributeProtoSchema> {
  if ('float' in value) return { name, type: 1, f: value.float };
  if ('int' in value) return { name, type: 2, i: BigInt(value.int) };
  if ('text' in value) return { name, type: 3, s: new TextEncoder().encode(value.text) };
  if ('graph' in value) return { name, type: 5, g: graphMessage(value.graph) };
  return { name, type: 7, ints: value.ints.map(BigInt) };
}

const tensor = ({
  name,
  dtype,
  shape,
  bytes,
}: OnnxTensor): MessageInitShape<typeof TensorProtoSchema> => ({
  name,
  dataType: ELEMENT_TYPE[dtype],
  dims: shape.map(BigInt),
  rawData: bytes,
});

const valueInfo = ({
  name,
  dtype,
  shape,
}: OnnxValue): MessageInitShape<typeof ValueInfoProtoSchema> => ({
  name,
  type: {
    tensorType: {
      elemType: ELEMENT_TYPE[dtype],
      shape: {
        dim: shape.map((dimension) => ({
          value:
            typeof dimension === 'number'
              ? { case: 'dimValue', value: BigInt(dimension) }
              : { case: 'dimParam', value: dimension },
        })),
      },
    },
  },
});
