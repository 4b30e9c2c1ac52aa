/** The file of a worker's state: it comes back as it was, and a damaged or foreign one is refused in words. */

import { createLayout, decodeSafetensors, encodeSafetensors } from 'nostrain/tensor';
import { genesis, noMembers } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { decodeState, encodeState } from '../../src/worker/state-file.ts';

const layout = createLayout([
  { name: 'w', shape: [2] },
  { name: 'b', shape: [1] },
]);
const state = {
  ...genesis({ layout, values: Float32Array.of(1, 2, 3) }, Number.NaN),
  ...{ round: 4, norms: [1], moments: [Float32Array.of(7)], folded: { a: 2 }, cohort: ['a'] },
  ...{ residual: Float64Array.of(1, 2, 3), unpacked: Float64Array.of(4, 5, 6) },
};
const file = encodeState(state);
const decode = (bytes: Uint8Array, wanted = layout) => decodeState(bytes, wanted, noMembers);

/** The same file with a changed record, other metadata or other tensors. */
function changed({ record = {}, metadata = {}, without = '', cut = '' }) {
  const read = decodeSafetensors(file);
  if (!read.ok) throw new Error(read.issue.message);
  const worker = JSON.stringify({ ...JSON.parse(read.value.metadata.worker!), ...record });
  const tensors = read.value.tensors
    .filter(({ name }) => name !== `nostrain.${without}`)
    .map((each) =>
      each.name === `nostrain.${cut}`
        ? { ...each, shape: [2], values: each.values.slice(0, 2) }
        : each,
    );
  return encodeSafetensors({ tensors, metadata: { ...read.value.metadata, worker, ...metadata } });
}

describe('the file of a state', () => {
  it('holds all of it', () => {
    expect(decode(file)).toEqual(state);
    expect(decode(changed({ without: 'unpacked' }))).not.toHaveProperty('unpacked');
  });

  it('holds a gradient that was not sent yet, and losses that are no numbers', () => {
    const event = {
      ...{ id: 'a'.repeat(64), pubkey: 'b'.repeat(64), created_at: 1, kind: 7810, tags: [] },
      ...{ content: 'c', sig: 'd'.repeat(128) },
    };
    const numbers = { payloadBytes: 1, eventBytes: 2, secondsTraining: 3, residualShare: 0.5 };
    const sent = { ...numbers, event, roster: ['a'], trainingLoss: Number.NaN };
    const summary = {
      ...{ ...numbers, index: 3, base: 'b', digest: 'd', accepted: ['a'], refused: [] },
      completionReason: 'strict' as const,
      ...{ trainingLoss: 1, validationLoss: Number.NaN, secondsWaiting: 4, seconds: 5 },
    };
    const payload = Uint8Array.of(1, 2, 255);
    for (const more of [{}, { payload }]) {
      const full = { ...state, rounds: [summary], sent: { ...sent, ...more } as never };
      expect(decode(encodeState(full))).toEqual(full);
    }
    // older files have no totals
    const record = { seconds: undefined, norms: undefined, rounds: [summary, summary] };
    expect(decode(changed({ record }))).toMatchObject({
      ...{ norms: [], seconds: { training: 6, waiting: 8 } },
    });
    for (const wrong of [{ payload: '!' }, { roster: [1] }, { eventBytes: 'x' }, { event: '{}' }]) {
      const saved = { ...sent, event: JSON.stringify(event), ...wrong };
      expect(decode(changed({ record: { sent: saved } }))).toContain('history');
    }
  });

  it.each([
    ['another version', { metadata: { version: '2' } }, 'version 2'],
    ['another format', { metadata: { format: 'pt' } }, 'not a saved run'],
    ['no momentum', { without: 'momentum' }, 'momentum or residual'],
    ['a short momentum', { cut: 'momentum' }, 'momentum or residual'],
    ['a short residual', { cut: 'residual' }, 'momentum or residual'],
    ['a short delta', { cut: 'unpacked' }, 'learned last'],
    ['a negative round', { record: { round: -1 } }, 'history'],
    ['a cohort of numbers', { record: { cohort: [1] } }, 'history'],
    ['norms that are not numbers', { record: { norms: ['x'] } }, 'history'],
    ['outer norms that are no lists', { record: { outerNorms: [1] } }, 'history'],
    ['a folded round of -1', { record: { folded: { a: -1 } } }, 'history'],
    ['a gradient that is a number', { record: { sent: 1 } }, 'history'],
    ['half a gradient', { record: { sent: { event: '{}' } } }, 'history'],
    ['half a round', { record: { rounds: [{ index: 1 }] } }, 'history'],
  ])('with %s is refused', (_, change, words) => {
    expect(decode(changed(change))).toContain(words);
  });

  it('without what the strategy added is refused', () => {
    const added = {
      format: () => ({ more: 1 }),
      parse: ({ more }: { more?: unknown }) => (more === 1 ? { more } : undefined),
    };
    expect(decodeState(encodeState(state, added), layout, added)).toMatchObject({ more: 1 });
    expect(decodeState(file, layout, added)).toContain('history');
  });

  it('of another model is refused', () => {
    for (const tensors of [
      ['w', 'c'],
      ['b', 'w'],
    ]) {
      const other = createLayout(tensors.map((name, i) => ({ name, shape: [2 - i] })));
      expect(decode(file, other)).toBe('it holds another model');
    }
    expect(decode(Uint8Array.of(1))).toContain('shorter than 8 bytes');
  });
});
