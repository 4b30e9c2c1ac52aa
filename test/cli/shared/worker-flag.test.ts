/** `--worker`: a whole key, or the beginning of the npub of one worker. */
import { toNpub } from 'nostrain/node/parts';
import { describe, expect, it } from 'vitest';
import { workerNamed } from '../../../src/cli/shared/worker-flag.ts';
import { keyOf } from '../../support/certified-swarm.ts';

const workers = [0, 1, 2].map(keyOf);
const npubs = workers.map(toNpub);

describe('--worker', () => {
  it('takes the beginning of an npub as long as only one worker has it', () => {
    for (const [i, npub] of npubs.entries()) {
      expect(workerNamed(npub.slice(0, 12), workers)).toBe(workers[i]);
      expect(workerNamed(`${npub.slice(0, 12)}…`, [...workers, ...workers])).toBe(workers[i]);
    }
    expect(() => workerNamed('npub1', workers)).toThrow(`is the beginning of ${npubs[0]}, `);
  });

  it('takes any whole key, and nothing else', () => {
    const stranger = keyOf(9);
    expect(workerNamed(stranger, workers)).toBe(stranger);
    expect(workerNamed(toNpub(stranger), workers)).toBe(stranger);
    for (const text of ['', 'nobody', toNpub(stranger).slice(0, 12), workers[0]!.slice(0, 12)]) {
      expect(() => workerNamed(text, workers)).toThrow('is no worker of these events');
    }
  });
});
