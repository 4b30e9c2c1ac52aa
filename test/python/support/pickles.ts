/** Pickles and PyTorch archives written opcode by opcode, for files that PyTorch would never write. */
import { encodeZip } from 'nostrain/formats';

/** Bytes of opcodes and their arguments: each character of a text is a byte. */
export const opcodes = (...parts: readonly (string | number)[]): Uint8Array =>
  Uint8Array.from(
    parts.flatMap((part) =>
      typeof part === 'string' ? Array.from(part, (char) => char.charCodeAt(0)) : [part],
    ),
  );

/** A short text. */
export const text = (value: string): string =>
  `X${String.fromCharCode(value.length)}\0\0\0${value}`;

/** A persistent id of a storage; leaves the storage on the stack. */
export const storage = (type: string, key: string): string =>
  `(${text('storage')}ctorch\n${type}\n${text(key)}${text('cpu')}K\x01tQ`;

/** A tensor in that storage; sizes below 128. */
export const tensor = (
  of: string,
  offset: number,
  shape: readonly number[],
  strides: readonly number[],
): string => {
  const tuple = (sizes: readonly number[]) =>
    `(${sizes.map((size) => `K${String.fromCharCode(size)}`).join('')}t`;
  const location = `K${String.fromCharCode(offset)}${tuple(shape)}${tuple(strides)}`;
  return `ctorch._utils\n_rebuild_tensor_v2\n(${of}${location}N}tR`;
};

/** Builds an archive with a pickle and its storages. */
export const torchFile = (pickle: Uint8Array, storages: readonly Uint8Array[] = []): Uint8Array =>
  encodeZip([
    { name: 'a/data.pkl', bytes: pickle },
    ...storages.map((bytes, i) => ({ name: `a/data/${i}`, bytes })),
  ]);
