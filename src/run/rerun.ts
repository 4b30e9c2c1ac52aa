/**
 * What a run says of running inner phases again: how many of the listed contributions are drawn for it, how far floats may lie apart, and the
 * relays that private state travels to; and which contributions are drawn.
 */
import { isHex32 } from '../base/bytes.ts';
import type { Json } from '../base/canonical-json.ts';
import { bytes32, taggedHash, u32 } from '../base/hash.ts';
import { parseShard, whole } from './field.ts';
import type { Digest, WorkerId } from './ids.ts';
import { type Group, relayUrls, type Values } from './spec/spec-fields.ts';

/** Fields of a spec under `rerun`. */
export const rerunFields = {
  permille: whole(
    '--rerun-permille <n>',
    'contributions in a thousand whose author is drawn to show its private state, so that anybody can run its steps again',
    0,
    1000,
  ),
  bandPpm: whole(
    '--rerun-band-ppm <n>',
    'distance between what comes out and what was said that still passes where machines differ, in millionths of its length',
    0,
    1_000_000,
  ),
  relays: relayUrls('--rerun-relay <url>', 'relay that private state is sent to, and to no other'),
} as const satisfies Group;

/** What a spec says of members that check by themselves. */
export const juryField = whole(
  '--rerun-jury <n>',
  'members that run each drawn contribution again at once; whom a quorum of its committee then finds at fault is out of the run; 0: nobody does',
  0,
  64,
);

/** What a spec says of it. */
export type Rerun = Values<typeof rerunFields>;

/** What a run without it means. */
export const usualRerun: Rerun = { permille: 0, bandPpm: 10_000, relays: [] };

/** Bytes of a private state: what chunks can carry. */
const MOST_PRIVATE = 2 ** 31;
const BUILD = /^[!-~](?:[ -~]{0,126}[!-~])?$/;

const text = (is: (text: string) => boolean, accepted: string, doc: string) => ({
  accepted,
  doc,
  read: (json: Json): string | undefined =>
    typeof json === 'string' && is(json) ? json : undefined,
});

/** What a manifest says of it. */
export const rerunCommitment = {
  root: text(
    isHex32,
    '64 lowercase hex digits',
    'root of the private state after the inner phase, see docs/rounds.md',
  ),
  bytes: {
    accepted: `a whole number from 1 to ${MOST_PRIVATE}`,
    doc: 'its length',
    read: (json: Json): number | undefined =>
      Number.isSafeInteger(json) && Number(json) >= 1 && Number(json) <= MOST_PRIVATE
        ? Number(json)
        : undefined,
  },
  shard: text(
    (said) => parseShard(said) !== undefined,
    'a part like 2/4',
    'which part of the data the author trained on',
  ),
  build: text(
    (said) => BUILD.test(said),
    '1 to 128 characters of ASCII, no blanks around them',
    'what the bits of its steps depend on: engine, machine, threads',
  ),
} as const;

/** A contribution that an outcome lists, and the randomness of the round after it: nobody had that when it was sent. */
export interface Drawn {
  readonly run: Digest;
  readonly round: number;
  readonly worker: WorkerId;
  /** Of the round after it. */
  readonly entropy: string;
}

/** Whether the author of a listed contribution has to show its private state. */
export function isDrawn({ run, round, worker, entropy }: Drawn, permille: number): boolean {
  const parts = [bytes32(run), u32(round), bytes32(worker), bytes32(entropy)];
  const hash = taggedHash('nostrain/rerun/1', ...parts);
  return 1000 * new DataView(hash.buffer, hash.byteOffset).getUint32(0) < permille * 2 ** 32;
}
