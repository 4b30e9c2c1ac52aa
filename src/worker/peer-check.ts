/**
 * Compares how the workers of a run were started, by what their heartbeats say: other settings, the same part of the data, the same key.
 * Each is told once, at once, with the flag and both values, before it costs anybody a round.
 */
import { type Watch, watchChanges } from '../base/async.ts';
import { Recent } from '../base/bounded.ts';
import { safeLine } from '../base/errors.ts';
import type { Heartbeat } from '../run/heartbeat.ts';
import { differencesOf, differentFiles, type Terms } from '../run/terms.ts';
import type { Plan } from './plan.ts';
import type { Session } from './ports.ts';

/** Differences that are named; more of them mean another run. */
const MOST_NAMED = 4;

/** Sentences that are remembered as told: anybody may come with other settings, and again with another key. */
const MOST_TOLD = 1024;

/** Later than a process that was just started doubts heartbeats of its own key. */
const ANSWER_MS = 4000;

/** Whether a worker was started with settings under which neither can count the other. */
export const hasOtherTerms = ({ terms: theirs }: Heartbeat, { terms }: Plan): boolean =>
  terms !== undefined && theirs !== undefined && theirs.settings !== terms.settings;

/** From so many workers on those who look at all of them do so once a second, and the more there are the less often. */
const CROWD = 16;
const LOOK_MS = 1000;
const LOOK_MS_EACH = 4;
const MOST_LOOK_MS = 10_000;

/** Between two looks at all who are heard: none among few, and in a crowd, where somebody is always heard, so long that looks cost the same at any size. */
export const restOf =
  ({ ports: { clock, wire } }: Session) =>
  (signal: AbortSignal): Promise<void> | undefined => {
    const { size } = wire.heartbeats;
    if (size <= CROWD) return undefined;
    return clock.sleep(Math.min(MOST_LOOK_MS, Math.max(LOOK_MS, LOOK_MS_EACH * size)), signal);
  };

/** Compares with every peer until stopped; `answer` lets the other process with this key know, once. */
export function checkPeers(session: Session, answer: () => void): Watch {
  const { ports } = session;
  const { wire, report } = ports;
  const stopping = new AbortController();
  const told = new Recent<true>(MOST_TOLD);

  function tell(message: string): void {
    if (told.get(message)) return;
    told.set(message, true);
    report({ type: 'notice', message });
  }

  function look(): void {
    const inUse = keyInUse(wire.me);
    if (wire.isKeyInUse && !told.get(inUse)) {
      tell(inUse);
      void ports.clock.sleep(ANSWER_MS, stopping.signal).then(answer, () => undefined);
    }
    for (const difference of differencesOfPeers(session)) tell(difference);
  }

  const watch = watchChanges(wire.changed, look, restOf(session));
  return {
    async stop() {
      stopping.abort();
      await watch.stop();
    },
  };
}

/** What is wrong between this worker and its peers, one sentence each; of those that left too where nobody else is there. */
export const differencesOfPeers = (
  { plan, ports: { wire } }: Session,
  { withLeft } = { withLeft: false },
): readonly string[] =>
  [...wire.heartbeats.values()].flatMap(({ worker, leaving, terms }) => {
    if (worker === wire.me || (leaving && !withLeft) || !plan.terms || !terms) return [];
    return differenceIn(plan.terms, terms, worker.slice(0, 8)) ?? [];
  });

const keyInUse = (me: string): string =>
  `Another process trains in this run with the key of this worker (${me.slice(0, 8)}): stop one, or give one a key of its own with --key-file FILE.`;

/** What is wrong between two workers, in words; nothing where they fit. */
export function differenceIn(ours: Terms, theirs: Terms, worker: string): string | undefined {
  if (ours.settings !== theirs.settings) return settingsDiffer(ours, theirs, worker);
  const [k, n] = ours.shard.split('/');
  const [otherK, otherN] = theirs.shard.split('/');
  if (n !== otherN) {
    return `Worker ${worker} cuts the data into another number of parts (--shard ${theirs.shard}, yours is ${ours.shard}): use the same N in --shard K/N.`;
  }
  if (k !== otherK || n === '1') return undefined;
  return `Worker ${worker} trains on the same part of the data (--shard ${theirs.shard}): give each worker a --shard of its own.`;
}

const listed = (names: readonly string[]): string =>
  safeLine(names.slice(0, MOST_NAMED).join(', ')) +
  (names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : '');

function settingsDiffer(ours: Terms, theirs: Terms, worker: string): string {
  const all = differencesOf(ours, theirs);
  const [first] = all;
  const files = differentFiles(ours, theirs);
  if (!first && files.length > 0) {
    return `Worker ${worker} started from another base: ${listed(files)} ${files.length === 1 ? 'differs' : 'differ'}. Neither counts the other; stop one and give both the same --base.`;
  }
  if (!first) {
    return `Worker ${worker} started with other settings, or runs another version of nostrain. Neither counts the other; stop one and start it as the other was.`;
  }
  const named = all.slice(0, MOST_NAMED);
  const flags = named.map(({ flag }) => flag).join(', ');
  const more = all.length > named.length ? ` and ${all.length - named.length} more` : '';
  const what =
    all.length === 1
      ? `another ${first.name} (${first.theirs}, yours is ${first.ours})`
      : `other settings: ${named.map(({ name, theirs, ours }) => `${name} ${theirs} (yours is ${ours})`).join(', ')}${more}`;
  return `Worker ${worker} started with ${what}. Neither counts the other; stop one and use the same ${flags}.`;
}
