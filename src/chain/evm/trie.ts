/** Merkle-Patricia proofs (Yellow Paper, appendix D): what a trie with a known root holds at a key, and what it does not. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { decodeRlp, encodeRlp, isRlpList, type Rlp } from './rlp.ts';

/** A path has 64 steps at most, a node 17 references of 33 bytes. */
const MAX_NODES = 130;
const MAX_NODE_BYTES = 4096;

const EMPTY_ROOT = toHex(keccak_256(encodeRlp(new Uint8Array(0))));
const ABSENT = ok(undefined);

/**
 * The value under a key, or undefined where the trie proves that there is none; refused when the nodes do not lead from the
 * root to either. Nodes that the path does not touch are ignored.
 */
export function proveTrieValue(
  root: Uint8Array,
  key: Uint8Array,
  nodes: readonly Uint8Array[],
): Result<Uint8Array | undefined> {
  const broken = (message: string) => refuse('bad-proof', 'proof', message);
  if (nodes.length > MAX_NODES || nodes.some((node) => node.length > MAX_NODE_BYTES)) {
    return broken('more or larger nodes than a path can have');
  }
  if (toHex(root) === EMPTY_ROOT) return ABSENT;
  const byHash = new Map(nodes.map((node) => [toHex(keccak_256(node)), node]));
  const path = nibblesOf(keccak_256(key));
  let reference: Rlp = root;
  for (let at = 0; ; ) {
    const node = open(reference, byHash);
    if (node === undefined) return broken('a node of the path is missing or not of its hash');
    if (node.length === 17) {
      if (at === path.length) return stored(node[16]!);
      reference = node[path[at++]!]!;
    } else {
      const compact = node.length === 2 ? compactPath(node[0]!) : undefined;
      if (compact === undefined) return broken('a node is neither branch, extension nor leaf');
      const { nibbles, isLeaf } = compact;
      const isOurs = nibbles.every((nibble, i) => path[at + i] === nibble);
      at += nibbles.length;
      if (isLeaf) return isOurs && at === path.length ? stored(node[1]!) : ABSENT;
      if (!isOurs) return ABSENT;
      if (nibbles.length === 0) return broken('an extension that extends nothing');
      reference = node[1]!;
    }
    if (!isRlpList(reference) && reference.length === 0) return ABSENT;
  }
}

const stored = (item: Rlp): Result<Uint8Array | undefined> => {
  if (isRlpList(item)) return refuse('bad-proof', 'proof', 'a value that is a list');
  return item.length === 0 ? ABSENT : ok(item);
};

/** The node behind a reference: itself where it is small enough to be embedded, else what hashes to it. */
function open(reference: Rlp, byHash: ReadonlyMap<string, Uint8Array>): readonly Rlp[] | undefined {
  if (isRlpList(reference)) return encodeRlp(reference).length < 32 ? reference : undefined;
  const node = reference.length === 32 ? byHash.get(toHex(reference)) : undefined;
  const item = node && decodeRlp(node);
  return item !== undefined && isRlpList(item) ? item : undefined;
}

/** Hex-prefix encoding: a flag for leaves, a flag for odd length, then the nibbles. */
function compactPath(item: Rlp): { nibbles: readonly number[]; isLeaf: boolean } | undefined {
  if (isRlpList(item) || item.length === 0) return undefined;
  const [flags, second, ...rest] = nibblesOf(item);
  if (flags! > 3 || (flags! % 2 === 0 && second !== 0)) return undefined;
  return { nibbles: flags! % 2 === 1 ? [second!, ...rest] : rest, isLeaf: flags! >= 2 };
}

const nibblesOf = (bytes: Uint8Array): number[] =>
  [...bytes].flatMap((byte) => [byte >> 4, byte & 15]);
