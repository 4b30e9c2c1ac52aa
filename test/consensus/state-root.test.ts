import fc from 'fast-check';
import { isRoundOf, proveRound, runRoot } from 'nostrain/certified';
import { bytesRoot, firstLedger, modelRoot } from 'nostrain/consensus';
import { chunkTree } from 'nostrain/network';
import { ledgerBytes, ledgerRoot, noFeatures, parseLedger } from 'nostrain/run';
import { createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { readState, stateBytes } from '../../src/consensus/roots.ts';
import { rulesOf } from '../support/run-history.ts';

const layoutOf = (size: number) => createLayout([{ name: 'w', shape: [size] }]);
const stateOf = (size: number) => ({
  params: { layout: layoutOf(size), values: Float32Array.from({ length: size }, (_, i) => i / 7) },
  momentum: Float32Array.from({ length: size }, (_, i) => -i / 3),
});

describe('the model root', () => {
  it('is the root of the chunks in which the same bytes travel', () => {
    for (const size of [1, 5632, 5633, 20_000]) {
      const state = stateOf(size);
      const bytes = stateBytes(state);
      expect(modelRoot(state)).toBe(chunkTree(bytes).root);
      expect(bytesRoot(bytes)).toBe(modelRoot(state));
    }
  });

  it('is over the bits of 64-bit parameters too, little-endian', () => {
    // in one chunk, and in several
    for (const size of [3, 6000]) {
      const values = Float64Array.from({ length: size }, (_, i) => (i - 1) / 3);
      const momentum = values.map((value) => -1e-300 * value);
      const bytes = new Uint8Array(16 * size);
      bytes.set(new Uint8Array(values.buffer));
      bytes.set(new Uint8Array(momentum.buffer), 8 * size);
      const state = { params: { layout: layoutOf(size), values }, momentum };
      expect(Buffer.compare(stateBytes(state), bytes)).toBe(0);
      expect(modelRoot(state)).toBe(bytesRoot(bytes));
    }
  });

  it('tells parameters from momentum, and every bit from every other', () => {
    const state = stateOf(3);
    const { params, momentum } = state;
    const swapped = { params: { ...params, values: momentum }, momentum: params.values };
    const negative = { ...state, momentum: momentum.map((value, i) => (i === 0 ? -value : value)) };
    const zero = { ...state, momentum: Float32Array.of(0, momentum[1]!, momentum[2]!) };
    const roots = [state, swapped, negative, zero].map((each) => modelRoot(each));
    expect(new Set(roots).size).toBe(3);
    expect(Object.is(momentum[0], -0)).toBe(true);
  });
});

describe('a checkpoint', () => {
  const state = stateOf(6000);
  const ledger = firstLedger(rulesOf());
  const roots = { modelRoot: modelRoot(state), ledgerRoot: ledgerRoot(ledger) };
  const bytes = { model: stateBytes(state), ledger: ledgerBytes(ledger) };

  const isGenuine = ({ model, ledger: text }: typeof bytes) =>
    bytesRoot(model) === roots.modelRoot && parseLedger(text, roots.ledgerRoot, noFeatures).ok;

  it('gives the state back', () => {
    expect(bytesRoot(bytes.model)).toBe(roots.modelRoot);
    const read = parseLedger(bytes.ledger, roots.ledgerRoot, noFeatures);
    expect(read.ok && read.value).toEqual({ ...ledger, entropy: null });
    expect(modelRoot(readState(bytes.model, state.params.layout))).toBe(roots.modelRoot);
    for (const size of [5999, 6001]) {
      expect(() => readState(bytes.model, layoutOf(size))).toThrow(RangeError);
    }
  });

  it('is refused with any byte changed, or cut', () => {
    for (const name of ['model', 'ledger'] as const) {
      fc.assert(
        fc.property(fc.nat(bytes[name].length - 1), fc.integer({ min: 1, max: 255 }), (at, by) => {
          const changed = bytes[name].slice();
          changed[at] = changed[at]! ^ by;
          expect(isGenuine({ ...bytes, [name]: changed })).toBe(false);
        }),
        { numRuns: 20 },
      );
      const cut = { ...bytes, [name]: bytes[name].subarray(1) };
      expect(isGenuine(cut)).toBe(false);
    }
  });
});

describe('T-12: the run root', () => {
  const digests = Array.from({ length: 7 }, (_, i) => String(i).repeat(64));

  it('proves each of its rounds and nothing else', () => {
    const root = runRoot(digests);
    digests.forEach((_, round) => {
      const proof = proveRound(digests, round);
      expect(isRoundOf(root, proof)).toBe(true);
      expect(isRoundOf(root, { ...proof, digest: 'a'.repeat(64) })).toBe(false);
      expect(isRoundOf(root, { ...proof, round: (round + 1) % 7 })).toBe(false);
      expect(isRoundOf(root, { ...proof, rounds: 8 })).toBe(false);
      expect(isRoundOf(root, { ...proof, path: proof.path.slice(1) })).toBe(false);
    });
  });

  it('is proved by no malformed proof', () => {
    const root = runRoot(digests);
    const proof = proveRound(digests, 3);
    const single = runRoot([digests[0]!]);
    const alone = { round: 0, rounds: 1, digest: digests[0]!, path: [] };
    expect(isRoundOf(single, alone)).toBe(true);
    for (const round of [-1, 0.5, 1, 7, 2 ** 53, Number.NaN]) {
      expect(isRoundOf(root, { ...proof, round })).toBe(false);
      expect(isRoundOf(single, { ...alone, round })).toBe(false);
    }
    for (const rounds of [-1, 0, 3, 6.5, 2 ** 53, Number.NaN]) {
      expect(isRoundOf(root, { ...proof, rounds })).toBe(false);
      expect(isRoundOf(single, { ...alone, rounds })).toBe(false);
    }
    for (const bad of ['', 'z'.repeat(64), 'a'.repeat(62)]) {
      expect(isRoundOf(root, { ...proof, digest: bad })).toBe(false);
      const path = [bad, ...proof.path.slice(1)];
      expect(isRoundOf(root, { ...proof, path })).toBe(false);
    }
    expect(isRoundOf(root, { ...proof, path: [...proof.path, digests[0]!] })).toBe(false);
  });

  it('has no second preimage by repeating the last round', () => {
    expect(runRoot([...digests, digests.at(-1)!])).not.toBe(runRoot(digests));
  });
});
