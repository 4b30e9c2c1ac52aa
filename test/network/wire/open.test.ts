/** A sealed gradient opens to exactly what was sent, also after a restart: as a worker needs when its update was not counted. */

import { philox, unit } from 'nostrain/base';
import { createWire, type ProfileName } from 'nostrain/network';
import { createPythonWire } from 'nostrain/python/parts';
import type { PackingName } from 'nostrain/run';
import { assignChunks } from 'nostrain/worker';
import { expect, it } from 'vitest';
import type { Sealed } from '../../../src/network/wire/wire.ts';
import { openOne, PRIVATE } from '../../support/one-relay.ts';
import { signerOf } from '../../support/signers.ts';
import { largeLayout } from '../../support/swarm.ts';
import { valuesOf } from '../../support/vectors.ts';

const base = 'b'.repeat(64);
const { size } = largeLayout;
const delta = Float64Array.from({ length: size }, (_, i) => unit(philox([1, 2], i, 0, 0, 0)[0]) - 0.5); // biome-ignore format: one line

it.each<[ProfileName, PackingName | undefined, number]>([
  ['nostrain/1', 'trellis', 2],
  ['nostrain/1', 'trellis', 0],
  ['nostrain/1', 'int8', 0],
  ['nostrain/0', undefined, 0],
])('%s, %s, %i owners', async (profile, packing, owners) => {
  const { clock, set } = openOne(PRIVATE);
  const signer = signerOf(1);
  const options = {
    ...{ run: 'r', layout: largeLayout, relays: set, signer, clock, packing },
    ...{ ratio: 0.9, maxContainerBytes: 10 * size },
  };
  const makeWire = () =>
    profile === 'nostrain/0' ? createPythonWire(options).wire : createWire(options);
  const wire = makeWire();
  const roster = [1, 2, 3].map((index) => signerOf(index).publicKey).sort();
  const assignment = assignChunks({ run: 'r', round: 7, base, roster, owners, fragments: 1, size });
  const own = { round: 7, base, assignment, steps: 1, examples: 1, prev: undefined };
  const { sent, event, payload, eventBytes } = await wire.seal({ ...own, delta });
  const saved: Sealed = { event, payload: payload?.slice(), eventBytes };
  expect(valuesOf(wire.open(saved, { round: 7, assignment }))).toEqual(valuesOf(sent));
  const restarted = makeWire();
  const opened = restarted.open(saved, { round: 7, assignment });
  expect(opened.chunks).toEqual(sent.chunks);
  expect(valuesOf(opened)).toEqual(valuesOf(sent));
  expect(valuesOf(opened).some((value) => value !== 0)).toBe(true);
  if (packing === 'int8') expect(payload).toBeDefined(); // beside the event
  const other = { ...saved, event: { ...event, kind: Number(`1${event.kind}`) } };
  expect(() => restarted.open(other, { round: 7, assignment })).toThrow(TypeError);
  await restarted.close();
  await wire.close();
});
