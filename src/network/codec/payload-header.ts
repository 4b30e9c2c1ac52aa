/** The header of a payload: what it is, of which run and round, for which roster, and how much. 84 bytes, little-endian. */

import { ok, type Result, refuse } from '../../base/errors.ts';
import { roundName, roundNumber } from '../../run/round-name.ts';

/** N S P L, version 1. */
const MAGIC = [0x4e, 0x53, 0x50, 0x4c];
const VERSION = 1;
export const PAYLOAD_HEADER_BYTES = 84;

/** What sender and receiver know without the payload. */
export interface PayloadScope {
  /** SHA-256 that names the run. */
  readonly run: Uint8Array;
  readonly round: number;
  /** Public key of who sends it: with run and round it draws how chunks are turned. */
  readonly sender: Uint8Array;
  /** Parameters of the model. */
  readonly size: number;
  /** Digest of the roster and the rule by which its workers own chunks. */
  readonly roster: Uint8Array;
  /** The chunks that the sender owns in this round, strictly ascending. */
  readonly chunks: Uint32Array;
}

/** How the chunks are packed, as numbers. */
export interface PackingFields {
  readonly code: number;
  /** Values sent of a chunk of 4096; 0 when all are. */
  readonly kept: number;
}

/** Writes the header over the first bytes. */
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

/** How a payload is packed, when the rest of its header is what the receiver expects. */
export function readPayloadHeader(
  payload: Uint8Array,
  expected: PayloadScope,
): Result<PackingFields> {
  if (payload.length < PAYLOAD_HEADER_BYTES) {
    return refuse('truncated', 'header', `${payload.length} bytes are no header`);
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
    return refuse(
      'wrong-shape',
      'header.chunks',
      `${chunks} chunks where the sender owns ${owned}`,
    );
  }
  return ok({ code: payload[5]!, kept: view.getUint16(6, true) });
}

const holdsAt = (bytes: Uint8Array, at: number, part: Uint8Array): boolean =>
  part.every((byte, i) => bytes[at + i] === byte);
