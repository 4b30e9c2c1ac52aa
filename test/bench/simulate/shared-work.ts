/**
 * What workers that share a process do with the same events: signatures that they check and contents that they read. Each is counted, and either
 * done each time, or once for all of them with the time it took charged to whoever asks again.
 */
import type { ProtocolMessage } from '../../../src/certified/evidence.ts';
import { toProtocolMessage } from '../../../src/certified/gather.ts';
import { apartIn } from '../../../src/network/attachments/bodies.ts';
import type { EventCrypto } from '../../../src/network/event-crypto.ts';
import { nativeCrypto } from '../../../src/node/native-crypto.ts';

export interface Checks {
  /** How often workers asked, and how often it was done in earnest. */
  asked: number;
  done: number;
  /** Seconds that the latter took. */
  seconds: number;
}

/** Seconds that all take, each done for itself. */
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

/** Reads what each event says for everybody who asks, or with `isShared` once where nothing but the event says it. */
export function countedRead(reads: Checks, isShared: boolean): typeof toProtocolMessage {
  const known = new Map<string, ProtocolMessage>();
  return (event, ...rest) => {
    reads.asked++;
    const before = known.get(event.id);
    if (before) return before;
    const from = performance.now();
    const message = toProtocolMessage(event, ...rest);
    reads.done++;
    reads.seconds += (performance.now() - from) / 1000;
    if (!isShared || message === undefined || apartIn(event)) return message;
    if (known.size >= REMEMBERED) known.delete(known.keys().next().value!);
    known.set(event.id, message);
    return message;
  };
}
