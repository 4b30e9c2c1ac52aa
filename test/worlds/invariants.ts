/** What holds in every world. Each invariant looks at what happened and says what is wrong, if anything. */
import type { ProtocolMessage } from 'nostrain/certified/parts';
import { runIdOf } from 'nostrain/run';
import { refuseMachine } from '../../src/certified/decisions/machines.ts';
import { isMessage } from '../../src/certified/wire/certified-events.ts';
import { judgeFault } from '../../src/consensus/round/receive.ts';
import { keyOf } from '../support/certified-swarm.ts';
import type { Chronicle, Saved } from './chronicle.ts';
import { conduct } from './conduct.ts';
import { NO_SPACE } from './disk.ts';
import { evidenceOf, replayOf } from './evidence.ts';
import { BEACON_LAG } from './features.ts';
import type { Invariant } from './invariant.ts';
import { GRACE_MAX_MS } from './spec.ts';
import { honestIn, lastFaultSeconds, type World } from './world.ts';

const honestSaves = (chronicle: Chronicle): readonly Saved[] => {
  const honest = honestIn(chronicle.world);
  return chronicle.saved.filter(({ worker }) => honest.includes(worker));
};

/** Honest workers hold one outcome of each round, and one model after it. */
const oneOutcome: Invariant = {
  name: 'one outcome a round',
  check(chronicle) {
    const first = new Map<number, Saved>();
    return honestSaves(chronicle).flatMap((saved) => {
      const before = first.get(saved.round);
      first.set(saved.round, before ?? saved);
      if (!before || (before.outcome === saved.outcome && before.model === saved.model)) return [];
      const who = `workers ${before.worker} and ${saved.worker}`;
      return [`${who} differ after ${saved.round} rounds: ${before.outcome} and ${saved.outcome}`];
    });
  },
};

const noneAccused: Invariant = {
  name: 'no honest worker is accused',
  isCertified: true,
  check(chronicle) {
    const honest = new Map(honestIn(chronicle.world).map((worker) => [keyOf(worker), worker]));
    const accused = chronicle.reported.flatMap(({ worker, event }) =>
      event.type === 'fault' && honest.has(keyOf(worker)) && honest.has(event.worker)
        ? [`worker ${worker} accuses worker ${honest.get(event.worker)} of ${event.kind}`]
        : [],
    );
    const ejected = honestSaves(chronicle).flatMap(({ ejected: keys, round }) =>
      keys
        .filter((key) => honest.has(key))
        .map((key) => `worker ${honest.get(key)} is ejected after ${round} rounds`),
    );
    return [...new Set([...accused, ...ejected])];
  },
};

type Statement = Parameters<typeof judgeFault>[0];

function statementOf(message: ProtocolMessage, content: string): Statement | undefined {
  if (isMessage(message)) return message;
  if (message.type !== 'manifest' || message.manifest.parent === undefined) return undefined;
  const { id, key, type } = message;
  const { run, round, parent } = message.manifest;
  return { id, key, type, run, round, parent, content };
}

/** No honest key signs two statements of which the protocol allows one. */
const signsOnce: Invariant = {
  name: 'honest keys sign once',
  isCertified: true,
  check(chronicle) {
    const honest = new Set(honestIn(chronicle.world).map(keyOf));
    const { sent, gathered } = evidenceOf(chronicle);
    const contents = new Map(sent.map(({ event: { id, content } }) => [id, content]));
    const places = new Map<string, Statement[]>();
    const found: string[] = [];
    for (const message of gathered.messages.values()) {
      const statement = honest.has(message.key)
        ? statementOf(message, contents.get(message.id)!)
        : undefined;
      if (!statement) continue;
      const place = `${statement.key} ${statement.round}`;
      const others = places.get(place) ?? [];
      places.set(place, others);
      for (const other of others) {
        const fault = judgeFault(other, statement);
        if (fault) found.push(`${fault.kind} in round ${statement.round}: ${fault.events}`);
      }
      others.push(statement);
    }
    return found;
  },
};

/** No outcome that counts lists a contribution that another one has counted. */
const countedOnce: Invariant = {
  name: 'no contribution is counted twice',
  isCertified: true,
  check(chronicle) {
    const counted = new Map<string, string>();
    const path = new Set(honestSaves(chronicle).map(({ outcome }) => outcome));
    const found: string[] = [];
    for (const digest of path) {
      for (const { manifest } of chronicle.outcomes.get(digest)?.accepted ?? []) {
        const before = counted.get(manifest);
        if (before) found.push(`${manifest} is in ${before} and in ${digest}`);
        counted.set(manifest, digest);
      }
    }
    return found;
  },
};

/** Outcomes that count list joins of no machine that the run refuses. */
const attested: Invariant = {
  name: 'machines prove what they run',
  isCertified: true,
  check(chronicle) {
    const { spec, outcomes } = chronicle;
    const path = new Set(honestSaves(chronicle).map(({ outcome }) => outcome));
    return [...path].flatMap((digest) => {
      const { joins = [], time = 0 } = outcomes.get(digest) ?? {};
      return joins.flatMap((join) => {
        const refused = refuseMachine(spec, runIdOf(spec), join, time);
        return refused ? [`${digest} lists ${join.key}, whose ${refused.at} is wrong`] : [];
      });
    });
  },
};

/** A worker ends early only if it had no space to write, or in a plain run no relay; it is started again. */
const noneFails: Invariant = {
  name: 'no honest worker ends with an error',
  check(chronicle) {
    const honest = honestIn(chronicle.world);
    return chronicle.failures
      .filter(({ worker, message }) => {
        // a plain round waits for all workers: the one that is gone ends it for the others
        const isPlain = chronicle.world.run !== 'certified';
        const isExcused =
          (isPlain && message.startsWith('RelayError')) || message.includes(NO_SPACE);
        return honest.includes(worker) && !isExcused;
      })
      .map(({ worker, message }) => `worker ${worker}: ${message}`);
  },
};

/** Seconds after the last fault within which all honest workers finish. */
export function patienceSeconds({ rounds, document }: World): number {
  const waits = document.beacon ? BEACON_LAG : 0;
  return 600 + rounds * (GRACE_MAX_MS / 1000 + 60 + waits);
}

const progresses: Invariant = {
  name: 'all finish in time after the last fault',
  check(chronicle) {
    const { world, finished } = chronicle;
    const within = `${patienceSeconds(world)} s after the last fault at ${lastFaultSeconds(world)} s`;
    return honestIn(world)
      .filter((worker) => !finished.has(worker))
      .map((worker) => {
        const round = chronicle.saved.findLast((each) => each.worker === worker)?.round ?? 0;
        return `worker ${worker} has ${round} of ${world.rounds} rounds ${within}`;
      });
  },
};

/** The events replay, to the model that honest workers end with. */
const replays: Invariant = {
  name: 'the events replay',
  isCertified: true,
  check(chronicle) {
    const { world } = chronicle;
    const { modelRoot, rounds } = replayOf(chronicle);
    const problems = rounds
      .filter(({ checked }) => checked !== 'full')
      .map(({ round, checked, invalid, missing }) => {
        const why = invalid?.message ?? missing?.map(({ what, id }) => `${what} ${id}`).join(', ');
        return `round ${round} is checked '${checked}': ${why}`;
      });
    const last = honestSaves(chronicle).find(({ round }) => round === world.rounds);
    if (!last || last.model === modelRoot) return problems;
    const ends = `the replay ends with model ${modelRoot}, worker ${last.worker} with`;
    return [...problems, `${ends} ${last.model}`];
  },
};

const invariants: readonly Invariant[] = [
  oneOutcome,
  noneAccused,
  signsOnce,
  countedOnce,
  attested,
  noneFails,
  progresses,
  replays,
  ...conduct,
];

/** Returns what holds in this world. */
export const invariantsOf = ({ run }: World): readonly Invariant[] =>
  invariants.filter(({ isCertified = false }) => run === 'certified' || !isCertified);
