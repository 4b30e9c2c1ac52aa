/**
 * Publishes a payload that several keepers have, each its share: rendezvous hashing (HRW) over keepers and relays says for every chunk which two
 * keepers send it, each to another relay. First goes what is first a keeper's, so that all is somewhere after half of the work; then second copies,
 * in case a keeper or a relay is gone. Chunks of zeros are not sent.
 */
import { utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';
import type { WorkerId } from '../../run/ids.ts';
import { isSent, planChunks, splitChunks } from '../chunks/payload.ts';
import { isTaken } from '../transport/delivery.ts';
import type { PublishOptions } from './publish.ts';

/** Who publishes one payload, and who of them this is. */
export interface Keepers {
  readonly me: WorkerId;
  /** All of them, in any order. */
  readonly all: readonly WorkerId[];
}

/** Copies of a chunk, each at another relay and by another keeper, as far as there are so many. */
const COPIES = 2;
/** Chunk events under way at one relay; of what can wait fewer. */
const WINDOW = 16;
const PATIENT_WINDOW = 2;

/** One chunk to send. */
export interface Errand {
  readonly index: number;
  /** The one that it is for, then those that get it where that does not take it. */
  readonly relays: readonly string[];
}

/** What a keeper sends of a payload: by copy, the first ones first. */
export function errandsOf(
  payload: Uint8Array,
  root: string,
  { me, all }: Keepers,
  relays: readonly string[],
): readonly (readonly Errand[])[] {
  const chunks = [...splitChunks(payload).entries()].filter(([index, chunk]) =>
    isSent(chunk, index),
  );
  return Array.from({ length: Math.min(COPIES, Math.max(all.length, relays.length)) }, (_, copy) =>
    chunks.flatMap(([index]): readonly Errand[] => {
      const place = `${root}/${index}`;
      const keepers = ranked(all, place);
      if (keepers[copy % keepers.length] !== me) return [];
      const order = ranked(relays, place);
      const first = copy % order.length;
      return [{ index, relays: [...order.slice(first), ...order.slice(0, first)] }];
    }),
  );
}

/** By score of each name for a place, the best first: who is gone leaves the order of the others as it was. */
function ranked(names: readonly string[], place: string): readonly string[] {
  return names
    .map((name) => ({ name, score: sha256Hex(utf8(`nostrain:keeper:${place}:${name}`)) }))
    .sort((a, b) => (a.score < b.score ? -1 : 1))
    .map(({ name }) => name);
}

/** A share on its way. */
export interface ShareSending {
  /** Whether some relay took each chunk that is first this keeper's. */
  readonly first: Promise<boolean>;
  /** The same of all copies. */
  readonly all: Promise<boolean>;
}

/** Starts sending this keeper's share. */
export function sendShare(
  payload: Uint8Array,
  keepers: Keepers,
  options: PublishOptions,
): ShareSending {
  const plan = planChunks(payload, options.lifetime, options.sha256);
  const { own } = options.relays;
  const [first = [], second = []] = errandsOf(payload, plan.root, keepers, own);
  const run = (errands: readonly Errand[]) =>
    runErrands(errands, options, (index) => options.sign(plan.draft(index)));
  const begun = run(first);
  const all = begun.then(async (isHeld) => (await run(second)) && isHeld);
  return { first: begun, all };
}

/** Several at a time for each relay that they are for; what one does not take goes to the next. */
async function runErrands(
  errands: readonly Errand[],
  { relays, signal, isPatient }: PublishOptions,
  eventOf: (index: number) => Parameters<typeof relays.publish>[0],
): Promise<boolean> {
  const useless = new Set<string>();
  const deliver = async ({ index, relays: order }: Errand): Promise<boolean> => {
    const event = eventOf(index);
    for (const relay of order) {
      if (useless.has(relay)) continue;
      const [outcome] = await relays.publish(event, { only: [relay], signal, isPatient });
      if (outcome && isTaken(outcome)) return true;
      if (outcome === undefined || outcome.attempts === 0) useless.add(relay);
    }
    return false;
  };
  const lanes = relays.own.map(async (relay) => {
    const queue = errands.filter((errand) => errand.relays[0] === relay);
    let isHeld = true;
    const work = async () => {
      for (let next = queue.shift(); next && !signal.aborted; next = queue.shift()) {
        isHeld = (await deliver(next)) && isHeld;
      }
    };
    await Promise.all(Array.from({ length: isPatient ? PATIENT_WINDOW : WINDOW }, work));
    return isHeld && queue.length === 0;
  });
  return Promise.all(lanes).then(
    (held) => held.every(Boolean),
    () => false,
  );
}
