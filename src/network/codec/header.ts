/** The 84-byte header of a payload (little-endian, docs/payload.md), and what sender and receiver know beforehand. */
import { ok, type Result, refuse } from '../../base/errors.ts';
import { roundName, roundNumber } from '../../run/ids.ts';

/** "NSPL"; the version byte follows. */
const MAGIC = [0x4e, 0x53, 0x50, 0x4c];
const VERSION = 1;
/** Length of the header of a payload. */
export const PAYLOAD_HEADER_BYTES = 84;

/** Context of a payload that sender and receiver both know; the header is checked against it. */
export interface PayloadScope {
  readonly run: Uint8Array;
  readonly round: number;
  /** Public key of the sender; with run and round it seeds the rotation of chunks. */
  readonly sender: Uint8Array;
  readonly size: number;
  /** Digest of the roster and of the rule that assigns chunks to its workers. */
  readonly roster: Uint8Array;
  /** Chunks that the sender owns in this round, strictly ascending. */
  readonly chunks: Uint32Array;
}

/** Codec and rate as they stand in the header. */
export interface PackingFields {
  readonly code: number;
  /** `trellis`: bytes of codes of a full chunk of 4096 values; otherwise 0. */
  readonly kept: number;
}

export function writePayloadHeader(
  out: Uint8Array,
  { code, kept }: PackingFields,
  { run, round, size, roster, chunks }: PayloadScope,
): void {
  const view = new DataView(out.buffer, out.byteOffset, PAYLOAD_HEADER_BYTES);
  out.set([...MAGIC, VERSION, code]);
  view.setUint16(6, kept, true);
  view.setUint32(8, round, true);
  view.setUint32(12, size, true);
  view.setUint32(16, chunks.length, true);
  out.set(run, 20);
  out.set(roster, 52);
}

/**
 * Returns codec and rate. Refuses a header that does not match the expected run, round, size, roster and chunks.
 */
export function readPayloadHeader(
  payload: Uint8Array,
  expected: PayloadScope,
): Result<PackingFields> {
  if (payload.length < PAYLOAD_HEADER_BYTES) {
    return refuse('truncated', 'header', `${payload.length} bytes are too short for a header`);
  }
  if (MAGIC.some((byte, i) => payload[i] !== byte)) {
    return refuse('bad-payload', 'header.magic', 'not a payload');
  }
  if (payload[4] !== VERSION) {
    return refuse('unsupported-version', 'header.version', `version ${payload[4]}, not ${VERSION}`);
  }
  const view = new DataView(payload.buffer, payload.byteOffset, PAYLOAD_HEADER_BYTES);
  if (!holdsAt(payload, 20, expected.run)) {
    return refuse('other-run', 'header.run', 'made for another run');
  }
  const round = view.getUint32(8, true);
  if (round !== expected.round) {
    return refuse(
      'wrong-round',
      'header.round',
      `${roundName(round)}, not ${roundNumber(expected.round)}`,
    );
  }
  const size = view.getUint32(12, true);
  if (size !== expected.size) {
    return refuse('wrong-shape', 'header.size', `${size} parameters, not ${expected.size}`);
  }
  if (!holdsAt(payload, 52, expected.roster)) {
    return refuse('other-roster', 'header.roster', 'made for another roster');
  }
  const chunks = view.getUint32(16, true);
  if (chunks !== expected.chunks.length) {
    const owned = expected.chunks.length;
    return refuse('wrong-shape', 'header.chunks', `${chunks} chunks, but the sender owns ${owned}`);
  }
  return ok({ code: payload[5]!, kept: view.getUint16(6, true) });
}

const holdsAt = (bytes: Uint8Array, at: number, part: Uint8Array): boolean =>
  part.every((byte, i) => bytes[at + i] === byte);
