/**
 * All event kinds of the protocol, by number. A program in another language needs these to take part in a run.
 *
 * @module nostrain/kinds
 */

import { attendee } from './attendee.ts';
import { attestation } from './attestation.ts';
import { certifiedCheckpoint } from './certified-checkpoint.ts';
import { checkpoint } from './checkpoint.ts';
import { chunk } from './chunk.ts';
import { archivedVotes } from './copies.ts';
import { delegation } from './delegation.ts';
import { fault } from './fault.ts';
import { gradient } from './gradient.ts';
import { heartbeat } from './heartbeat.ts';
import { holder } from './holder.ts';
import { lobby } from './lobby.ts';
import { manifest } from './manifest.ts';
import { memberKind } from './member.ts';
import { merge } from './merge.ts';
import { packed } from './packed.ts';
import { presence } from './presence.ts';
import { proposal } from './proposal.ts';
import { run } from './run.ts';
import { sealKey } from './seal-key.ts';
import { snapshot } from './snapshot.ts';
import { vote } from './vote.ts';

export type { Filter, Kind, Window } from './_define.ts';
export type { Draft, Issue, Parsed } from './_tags.ts';
export {
  archivedVotes,
  attendee,
  attestation,
  certifiedCheckpoint,
  checkpoint,
  chunk,
  delegation,
  fault,
  gradient,
  heartbeat,
  holder,
  lobby,
  manifest,
  memberKind,
  merge,
  packed,
  presence,
  proposal,
  run,
  sealKey,
  snapshot,
  vote,
};

/** All kinds by number. */
export const kinds = {
  [manifest.kind]: manifest,
  [chunk.kind]: chunk,
  [certifiedCheckpoint.kind]: certifiedCheckpoint,
  [vote.kind]: vote,
  [proposal.kind]: proposal,
  [archivedVotes.kind]: archivedVotes,
  [snapshot.kind]: snapshot,
  [fault.kind]: fault,
  [memberKind.kind]: memberKind,
  [packed.kind]: packed,
  [delegation.kind]: delegation,
  [merge.kind]: merge,
  [gradient.kind]: gradient,
  [heartbeat.kind]: heartbeat,
  [checkpoint.kind]: checkpoint,
  [run.kind]: run,
  [presence.kind]: presence,
  [holder.kind]: holder,
  [attestation.kind]: attestation,
  [lobby.kind]: lobby,
  [attendee.kind]: attendee,
  [sealKey.kind]: sealKey,
} as const;
