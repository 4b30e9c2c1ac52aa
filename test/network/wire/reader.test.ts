/** Which manifests of a round count once their payload has come, and what a worker of another roster or slice sends. */

import { sha256Hex } from 'nostrain/base';
import { buildManifest } from 'nostrain/network';
import { type Contribution, tierFeatures } from 'nostrain/run';
import type { Layout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import type { Judged } from '../../../src/network/wire/judged.ts';
import { type LocalManifest, openReader } from '../../../src/network/wire/manifests.ts';
import type { RoundRequest } from '../../../src/network/wire/wire.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { signerOf } from '../../support/signers.ts';

const [base, outer, other] = ['ab', 'cd', 'ef'].map((byte) => byte.repeat(32)) as [string, string, string]; // biome-ignore format: one line
const large = Uint8Array.from({ length: 55_000 }, (_, i) => i);
const clock = createManualClock();
const createdAt = Math.floor(clock.now() / 1000);
const own: LocalManifest = { run: 'r', round: 3, base, codec: 'int8', examples: 1, steps: 1 };

interface Given {
  readonly manifest?: Partial<LocalManifest>;
  readonly payload?: Uint8Array;
  /** Other members of the content, in canonical JSON. */
  readonly content?: object;
  readonly request?: Partial<RoundRequest>;
  readonly slices?: Layout['slices'];
  /** The payload that its chunks make up; undefined if they are not there. */
  readonly pulled?: Uint8Array | undefined;
}

/** Reads a manifest of another worker; `contexts` are those in which its payload was opened. */
async function read({
  manifest = {},
  payload = large,
  content,
  request = {},
  slices,
  ...rest
}: Given) {
  const { draft } = buildManifest({ ...own, ...manifest }, payload, { createdAt, expiresAt: createdAt + 60 }); // biome-ignore format: one line
  const members = { ...JSON.parse(draft.content), ...content };
  const event = signerOf(2).sign({ ...draft, content: JSON.stringify(members, content && Object.keys(members).sort()) }); // biome-ignore format: one line
  const contexts: { readonly agreed?: number | undefined }[] = [];
  const packer = {
    open: (_: Uint8Array, __: string, context: (typeof contexts)[0]) => {
      contexts.push(context);
      return { ok: true, value: {} };
    },
  };
  const actual = 'pulled' in rest ? rest.pulled : payload;
  const pull = () => ({
    done: Promise.resolve(actual && { payload: actual, eventBytes: 7 }),
    ...{ progress: () => ({ have: 0, of: 2 }), stop: () => undefined },
  });
  const reader = openReader(
    { round: 3, base, assignment: { digest: undefined }, ...request } as RoundRequest,
    { run: 'r', clock, maxContainerBytes: 60_000, layout: { slices }, ...(slices && { features: tierFeatures }) } as never, // biome-ignore format: one line
    { packer: packer as never, attachments: { pull } as never, localUpdate: () => undefined },
  );
  const reading = reader.read(event, 3);
  const judged: Judged<Contribution> = 'done' in reading ? await reading.done : reading;
  return { reason: judged.ok ? 'counts' : judged.rejection.reason, contexts, judged };
}

describe('the payload of a manifest', () => {
  it('counts once its chunks have come, with their bytes', async () => {
    const { reason, judged } = await read({});
    expect(reason).toBe('counts');
    expect(judged).toMatchObject({
      value: { payloadBytes: 55_000, worker: signerOf(2).publicKey },
    });
    expect((await read({ pulled: undefined })).reason).toBe('payload-missing');
  });

  it('with another hash than its manifest is refused, though its chunks have the root', async () => {
    const { reason, contexts } = await read({ content: { hash: sha256Hex(Uint8Array.of(1)) } });
    expect([reason, contexts]).toEqual(['malformed', []]);
  });

  it('for another roster is refused', async () => {
    expect((await read({ manifest: { roster: other } })).reason).toBe('other-roster');
    const assignment = { digest: other } as never;
    expect((await read({ request: { assignment } })).reason).toBe('other-roster');
    const both = { manifest: { roster: other }, request: { assignment } };
    expect((await read(both)).reason).toBe('counts');
  });
});

describe('a manifest of a run with tiers', () => {
  const tiers = {
    slices: [
      { from: 0, to: 4096 },
      { from: 4096, to: 8192 },
    ],
    request: { sliceDigests: [base, outer] },
  };
  const withSlices = (...rings: string[]) => ({ features: { widths: { rings } } });

  it('counts for the slices from which both started alike', async () => {
    const agreedOn = async (rings: readonly string[], request = {}) => {
      const { contexts } = await read({
        ...{ ...tiers, manifest: withSlices(...rings) },
        request: { ...tiers.request, ...request },
      });
      return contexts.map(({ agreed }) => agreed);
    };
    expect(await agreedOn([base])).toEqual([1]);
    expect(await agreedOn([base, outer])).toEqual([2]);
    expect(await agreedOn([base, other])).toEqual([1]);
    expect(await agreedOn([base, other], { anyBase: { folded: {} } })).toEqual([2]);
  });

  it('is refused without slices, or with more than the model has', async () => {
    expect((await read(tiers)).reason).toBe('malformed');
    const three = { ...tiers, manifest: withSlices(base, outer, other) };
    expect((await read(three)).reason).toBe('malformed');
  });
});

it('a payload of more than four times the shards that restore it is refused', async () => {
  const shards = (count: number) => ({ need: 1, shards: Array(count).fill(other) });
  const content = (count: number) => ({ content: shards(count) });
  expect((await read(content(4))).reason).toBe('counts');
  expect((await read(content(5))).reason).toBe('too-large');
});
