/**
 * Writes trained weights into the ONNX file that they came from. Batch norms and dropout get their form of inference;
 * every other byte of its graph stays.
 */
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { ConfigError } from '../../base/errors.ts';
import { type ReadBeside, readNode, readTensor } from './read-onnx.ts';

const FLOAT = 1;

/** Returns the elements of a tensor that was trained; undefined for others. */
export type TrainedValues = (name: string) => Float32Array | undefined;

/**
 * Returns the file with these weights, all in one file. Throws a ConfigError (`export/unfit`) if the file stores a
 * trained tensor in another number format than f32.
 */
export function withWeights(
  bytes: Uint8Array,
  trained: TrainedValues,
  beside: ReadBeside,
): Uint8Array {
  return copied(bytes, (field, content, to) => {
    if (field !== 7) return false;
    message(to, field, withGraphWeights(content, trained, beside));
    return true;
  });
}

type Replace = (field: number, content: Uint8Array, to: BinaryWriter) => boolean;

/** Copies a message; `replace` may write something else for a field that holds bytes. */
function copied(bytes: Uint8Array, replace: Replace): Uint8Array {
  const to = new BinaryWriter();
  const from = new BinaryReader(bytes);
  while (from.pos < from.len) {
    const [field, wire] = from.tag();
    const start = from.pos;
    from.skip(wire, field);
    const raw = bytes.subarray(start, from.pos);
    const isReplaced =
      wire === WireType.LengthDelimited && replace(field, new BinaryReader(raw).bytes(), to);
    if (!isReplaced) to.tag(field, wire).raw(raw);
  }
  return to.finish();
}

const message = (to: BinaryWriter, field: number, content: Uint8Array): void => {
  to.tag(field, WireType.LengthDelimited).bytes(content);
};

function withGraphWeights(
  bytes: Uint8Array,
  trained: TrainedValues,
  beside: ReadBeside,
): Uint8Array {
  const shapes = new Map<string, readonly number[]>();
  const graph = copied(bytes, (field, content, to) => {
    if (field === 5) {
      const { name, shape, read, type } = readTensor(content, beside);
      shapes.set(name, shape);
      const values = trained(name);
      if (values === undefined && !isExternal(content)) return false;
      if (type !== FLOAT) throw unfit(name);
      message(to, field, tensor(name, shape, values ?? Float32Array.from(read().elements)));
      return true;
    }
    if (field !== 1) return false;
    const { type, outputs } = readNode(content, beside);
    if (type === 'BatchNormalization' || type === 'Dropout') {
      message(to, field, forInference(type, content));
      return true;
    }
    // weights that were shared through Identity are trained apart
    return type === 'Identity' && trained(outputs[0] ?? '') !== undefined;
  });
  const added = new BinaryWriter().raw(graph);
  copied(bytes, (field, content) => {
    if (field !== 1) return false;
    const { type, inputs, outputs } = readNode(content, beside);
    const values = trained(outputs[0] ?? '');
    const shape = shapes.get(inputs[0] ?? '');
    if (type === 'Identity' && values && shape)
      message(added, 5, tensor(outputs[0]!, shape, values));
    return false;
  });
  return added.finish();
}

const unfit = (name: string): ConfigError =>
  new ConfigError('export/unfit', `the file stores ${name} in another number format than f32`, {
    hint: 'export the model from Python in float32 and train that, or use --state',
  });

/** Returns a node without its training mode, an attribute or the third input, and with its first output alone. */
function forInference(type: 'BatchNormalization' | 'Dropout', node: Uint8Array): Uint8Array {
  let [inputs, outputs] = [0, 0];
  return copied(node, (field, content) => {
    if (field === 1) return ++inputs > 2 && type === 'Dropout';
    if (field === 2) return ++outputs > 1;
    return field === 5 && hasField(content, 1, 'training_mode');
  });
}

const isExternal = (content: Uint8Array): boolean => hasField(content, 13);

/** Reports whether a message has a field of bytes, with this text if one is given. */
function hasField(message: Uint8Array, wanted: number, text?: string): boolean {
  let isThere = false;
  copied(message, (field, content) => {
    const isWanted = text === undefined || new TextDecoder().decode(content) === text;
    isThere ||= field === wanted && isWanted;
    return false;
  });
  return isThere;
}

function tensor(name: string, shape: readonly number[], values: Float32Array): Uint8Array {
  const to = new BinaryWriter();
  for (const dim of shape) to.tag(1, WireType.Varint).int64(dim);
  to.tag(2, WireType.Varint).int32(FLOAT);
  to.tag(8, WireType.LengthDelimited).string(name);
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return to.tag(9, WireType.LengthDelimited).bytes(bytes).finish();
}
