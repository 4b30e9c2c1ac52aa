/** Relays of a chaos run: real ones, each of which can turn liar, forget everything, or die, and come back. */

import { createSigner } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { publishRaw } from '../publish-raw.ts';
import { secretOf } from '../swarm.ts';

export const harms = ['lying', 'deleting', 'dead'] as const;
export type Harm = (typeof harms)[number];

export interface ChaosRelay {
  /** As workers know it. */
  readonly url: string;
  /** Where it listens. */
  readonly address: string;
  /** Frames in and out so far. */
  traffic(): number;
  /** What its connections get from now on. */
  lie(lies: boolean): void;
  /** Keeps its word to all of these keys, who ask it to forget them (NIP-62): nothing they signed by now is served or taken again. */
  forget(workers: number): Promise<number>;
  close(): Promise<void>;
}

/**
 * Every event is preceded by a forged twin, half of them by a misdated one; half of what is heard is withheld, of what is published three in
 * ten are taken in words only; half of the questions are answered with nothing, half of the others are never said to be over.
 */
const LIES = {
  ...{ forge: 1, postdate: 0.5, drop: 0.5, discard: 0.3 },
  ...{ falseEose: 0.5, noEose: 0.5 },
} as const;

const VANISH_KIND = 62;

export async function createChaosRelay(
  name: string,
  seed: number,
  nowMs: () => number,
): Promise<ChaosRelay> {
  const faults: { -readonly [name in keyof typeof LIES]?: number } = {};
  const relay = await createRelay({ seed, nowMs, faults, limits: { idleSeconds: 1e9 } });
  const { url: address } = relay;
  return {
    ...{ url: `ws://${name}.test`, address },
    traffic() {
      const { framesIn, framesOut } = relay.stats();
      return framesIn + framesOut;
    },
    lie(lies) {
      for (const name of Object.keys(LIES) as (keyof typeof LIES)[]) {
        faults[name] = lies ? LIES[name] : 0;
      }
    },
    async forget(workers) {
      const before = relay.stats().eventsStored;
      const created_at = Math.floor(nowMs() / 1000);
      const tags = [['relay', address]];
      const requests = Array.from({ length: workers }, (_, index) =>
        createSigner(secretOf(index), nativeCrypto).sign({
          ...{ kind: VANISH_KIND, created_at, tags, content: '' },
        }),
      );
      await publishRaw(address, requests);
      return before - relay.stats().eventsStored;
    },
    close: () => relay.close(),
  };
}
