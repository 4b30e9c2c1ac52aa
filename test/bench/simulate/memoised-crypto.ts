/**
 * Signatures of workers that share a process: every check is counted, and either done each time, or once for all of them with the
 * time it took charged to whoever asks again.
 */
import type { EventCrypto } from '../../../src/network/event-crypto.ts';
import { nativeCrypto } from '../../../src/node/native-crypto.ts';

export interface Checks {
  /** Signatures that workers asked to be checked, and those that were checked in earnest. */
  asked: number;
  done: number;
  /** Seconds that the latter took. */
  seconds: number;
}

/** Seconds that all checks take, each done for itself. */
export const chargedSeconds = ({ asked, done, seconds }: Checks): number =>
  done === 0 ? 0 : (asked / done) * seconds;

/** Verdicts remembered: those of some rounds. */
const REMEMBERED = 65_536;

/** Checks each signature for everybody who asks, or with `isShared` once; the verdict is that of the real check. */
export function countedCrypto(checks: Checks, isShared: boolean): EventCrypto {
  const verdicts = new Map<string, boolean>();
  const check: EventCrypto['schnorr']['verify'] = (signature, message, publicKey) => {
    const from = performance.now();
    const isGood = nativeCrypto.schnorr.verify(signature, message, publicKey);
    checks.done++;
    checks.seconds += (performance.now() - from) / 1000;
    return isGood;
  };
  return {
    sha256Text: nativeCrypto.sha256Text,
    schnorr: {
      verify(signature, message, publicKey) {
        checks.asked++;
        if (!isShared) return check(signature, message, publicKey);
        const key = [signature, message, publicKey]
          .map((bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
          .map((bytes) => bytes.toString('latin1'))
          .join();
        const known = verdicts.get(key);
        if (known !== undefined) return known;
        const isGood = check(signature, message, publicKey);
        if (verdicts.size >= REMEMBERED) verdicts.delete(verdicts.keys().next().value!);
        verdicts.set(key, isGood);
        return isGood;
      },
      sign: nativeCrypto.schnorr.sign,
    },
  };
}
