/** This library's side of `npm run bench:reference`: the same operations on the same inputs. */
import { sha256Hex, utf8 } from 'nostrain/base';
import { createSigner, type SignedEvent, verifyEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { createNativeSha256 } from 'nostrain/node/parts';
import { aggregateWeightedDeltas, nesterovOuterStep } from 'nostrain/python';
import { decodeNstr, encodeNstr } from 'nostrain/python/parts';
import { createLayout, type Params, stateDigest } from 'nostrain/tensor';

export interface Operation {
  /** What is measured; the answer says in a word what came out. */
  run(): () => string;
}

const OUTER = { learningRate: 0.7, momentum: 0.9 };
const SECRET = Uint8Array.from({ length: 32 }, (_, i) => (i === 31 ? 3 : 0));

/** The operations over these rows of values, by name, in the order of the table. */
export function operationsOf(
  rows: readonly Float64Array[],
  weights: readonly number[],
  ratio: number,
): Readonly<Record<string, Operation>> {
  const layout = createLayout([{ name: 'all', shape: [rows[0]!.length] }]);
  const deltas: readonly Params[] = rows.map((values) => ({ layout, values }));
  const [first, second, third] = deltas as [Params, Params, Params];
  const { payload } = encodeNstr(first, { ratio });
  const signer = createSigner(SECRET, nativeCrypto);
  const tags = [['t', 'nostrain']];
  const draft = { kind: 33333, created_at: 1_700_000_000, tags, content: payload };
  const signed: SignedEvent = signer.sign(draft);
  const digestOf = (params: Params) => () => stateDigest(params);
  return {
    compress: {
      run() {
        const made = encodeNstr(first, { ratio });
        return () => sha256Hex(utf8(made.payload));
      },
    },
    decode: { run: () => digestOf({ layout, values: decoded(payload, first) }) },
    sign: {
      run() {
        const { sig } = signer.sign(draft);
        return () => sig;
      },
    },
    verify: {
      run() {
        const verified = verifyEvent(signed, nativeCrypto);
        return () => String(verified.ok);
      },
    },
    aggregate: {
      run: () =>
        digestOf(
          aggregateWeightedDeltas(deltas.map((delta, i) => ({ delta, weight: weights[i]! }))),
        ),
    },
    'outer step': {
      run: () =>
        digestOf(nesterovOuterStep(first, second, { ...OUTER, previousMomentum: third }).nextState),
    },
    'state digest': {
      run() {
        const digest = stateDigest(first, createNativeSha256);
        return () => digest;
      },
    },
  };
}

function decoded(payload: string, { layout }: Params): Float64Array {
  const read = decodeNstr(payload, { layout, maxContainerBytes: 2 ** 24 });
  if (!read.ok) throw new Error(read.issue.message);
  const { indices, values } = read.value.delta;
  const out = new Float64Array(layout.size);
  for (let i = 0; i < indices.length; i++) out[indices[i]!] = values[i]!;
  return out;
}
