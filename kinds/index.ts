/** All kinds by number: what a program in any language must know to take part. */
import { checkpoint } from './checkpoint.ts';
import { chunk } from './chunk.ts';
import { gradient } from './gradient.ts';
import { heartbeat } from './heartbeat.ts';
import { manifest } from './manifest.ts';
import { presence } from './presence.ts';
import { run } from './run.ts';
import { snapshot } from './snapshot.ts';

export type { Filter, Kind, Window } from './_define.ts';
export type { Draft, Issue, Parsed } from './_event.ts';
export { checkpoint, chunk, gradient, heartbeat, manifest, presence, run, snapshot };

export const kinds = {
  [manifest.kind]: manifest,
  [chunk.kind]: chunk,
  [snapshot.kind]: snapshot,
  [gradient.kind]: gradient,
  [heartbeat.kind]: heartbeat,
  [checkpoint.kind]: checkpoint,
  [run.kind]: run,
  [presence.kind]: presence,
} as const;
