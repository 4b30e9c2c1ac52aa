/** Builds a Merkle-Patricia trie naively, as a reference for proofs: the root, and every node that is hashed. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { encodeRlp, type Rlp } from 'nostrain/chain';

export interface BuiltTrie {
  readonly root: Uint8Array;
  readonly nodes: readonly Uint8Array[];
}

type Entry = readonly [path: readonly number[], value: Uint8Array];

const EMPTY = new Uint8Array(0);

export function buildTrie(entries: Iterable<readonly [Uint8Array, Uint8Array]>): BuiltTrie {
  const nodes: Uint8Array[] = [];
  const paths = [...entries].map(
    ([key, value]): Entry => [
      [...keccak_256(key)].flatMap((byte) => [byte >> 4, byte & 15]),
      value,
    ],
  );
  const top = encodeRlp(nodeOf(paths, nodes));
  nodes.push(top);
  return { root: keccak_256(top), nodes };
}

function nodeOf(entries: readonly Entry[], nodes: Uint8Array[]): Rlp {
  if (entries.length === 0) return EMPTY;
  const [first, value] = entries[0]!;
  if (entries.length === 1) return [hexPrefix(first, 2), value];
  const shared = first.findIndex((nibble, i) => entries.some(([path]) => path[i] !== nibble));
  const below = (some: readonly Entry[], by: number) =>
    reference(
      nodeOf(
        some.map(([path, each]) => [path.slice(by), each]),
        nodes,
      ),
      nodes,
    );
  if (shared > 0) return [hexPrefix(first.slice(0, shared), 0), below(entries, shared)];
  const branches = Array.from({ length: 16 }, (_, nibble) =>
    below(
      entries.filter(([path]) => path[0] === nibble),
      1,
    ),
  );
  return [...branches, EMPTY];
}

function reference(node: Rlp, nodes: Uint8Array[]): Rlp {
  const bytes = encodeRlp(node);
  if (node instanceof Uint8Array || bytes.length < 32) return node;
  nodes.push(bytes);
  return keccak_256(bytes);
}

function hexPrefix(path: readonly number[], flag: 0 | 2): Uint8Array {
  const isOdd = path.length % 2 === 1;
  const nibbles = isOdd ? [flag + 1, ...path] : [flag, 0, ...path];
  return Uint8Array.from(
    { length: nibbles.length / 2 },
    (_, i) => nibbles[2 * i]! * 16 + nibbles[2 * i + 1]!,
  );
}
