/** Invariants about each machine: what it signs, believes, keeps and sends. */
import {
  gather,
  genesisOf,
  type ProtocolMessage,
  pathOf,
  startOf,
  withoutModel,
} from 'nostrain/certified/parts';
import { runIdOf } from 'nostrain/run';
import { parseKeptRound } from '../../src/certified/rounds/keep-round.ts';
import { keyOf } from '../support/certified-swarm.ts';
import { chainRecords } from './chain.ts';
import type { Chronicle, Sent } from './chronicle.ts';
import { cryptoOf, evidenceOf, replayOf } from './evidence.ts';
import type { Invariant } from './invariant.ts';
import { honestIn, type World } from './world.ts';

type Statement = Extract<ProtocolMessage, { type: 'vote' | 'proposal' | 'ballot' | 'manifest' }>;

const isStatement = (message: ProtocolMessage): message is Statement =>
  ['vote', 'proposal', 'ballot', 'manifest'].includes(message.type);

interface Signed extends Sent {
  readonly statement: Statement;
}

const roundOf = (statement: Statement): number =>
  statement.type === 'manifest' ? statement.manifest.round : statement.round;

/** Returns the statements that honest workers sent, in the order of sending. */
function signedByHonest(chronicle: Chronicle): readonly Signed[] {
  const { sent, gathered } = evidenceOf(chronicle);
  const honest = new Set(honestIn(chronicle.world));
  return sent.flatMap((each) => {
    const message = gathered.messages.get(each.event.id);
    const isOwn = message && honest.has(each.worker) && message.key === keyOf(each.worker);
    if (!isOwn || !isStatement(message)) return [];
    return [{ ...each, statement: message }];
  });
}

/** A worker that dies right after it sent something finds it on its disk. */
const savedFirst: Invariant = {
  name: 'statements are on disk before they are sent',
  isCertified: true,
  check: (chronicle) =>
    signedByHonest(chronicle)
      // what waited in line until its round was over is on no disk any more
      .filter(({ isOnDisk, round, statement }) => !isOnDisk && round <= roundOf(statement))
      .map(({ worker, statement: { type, id } }) => {
        return `worker ${worker} sent ${type} ${id}, and its disk does not have it`;
      }),
};

/** A worker that lost its disk votes in a round in which it had voted only from the next recovery epoch on. */
const votesAnew: Invariant = {
  name: 'a lost disk repeats no vote',
  isCertified: true,
  check(chronicle) {
    const before = new Map<string, number>();
    return signedByHonest(chronicle).flatMap(({ worker, losses, statement }) => {
      if (statement.type === 'manifest' || statement.attempt > 0) return [];
      const { type, round } = statement;
      const place = `${worker} ${round}`;
      const first = before.get(place) ?? losses;
      before.set(place, first);
      if (first === losses) return [];
      return [
        `worker ${worker} sent a ${type} in round ${round} before its disk was lost, and after`,
      ];
    });
  },
};

const genuine: Invariant = {
  name: 'only genuine events count',
  check: ({ forged }) =>
    forged.map(({ id, pubkey }) => `event ${id} counts, and ${pubkey} did not sign it`),
};

/**
 * Honest clocks differ by no more than the spec allows, so that no honest vote comes too early, unless a member leads
 * others into views that have not begun.
 */
const inTime: Invariant = {
  name: 'no honest vote is too early',
  isCertified: true,
  check({ world, reported }) {
    if (world.faults.some(({ fault }) => fault === 'floods')) return [];
    const honest = honestIn(world);
    const keys = new Set(honest.map(keyOf));
    return reported.flatMap(({ worker, event }) => {
      if (event.type !== 'refused' || event.reason !== 'too-early') return [];
      if (!honest.includes(worker) || !keys.has(event.worker ?? '')) return [];
      return [`worker ${worker} refuses votes of ${event.worker} in round ${event.round}`];
    });
  },
};

/** Under `defer` the next final outcome lists what all listed votes of the one before report as received. */
const nothingLost: Invariant = {
  name: 'no received contribution is lost',
  isCertified: true,
  check(chronicle) {
    const { rounds } = replayOf(chronicle);
    const honest = new Set(honestIn(chronicle.world).map(keyOf));
    return rounds.flatMap(({ round, before, decided }, i) => {
      const members = rounds[i - 1]?.before.ledger.members;
      if (chronicle.spec.late !== 'defer' || !decided || !members) return [];
      const { outcome } = decided;
      const votes = outcome.votes?.rows ?? [];
      if (outcome.result === 'void' || votes.length === 0) return [];
      const listed = new Set(
        outcome.accepted.map(({ index }) => before.ledger.members[index]?.key),
      );
      const isListed = (key: string) => listed.has(key) || before.ledger.faulted.includes(key);
      return votes[0]!.unlisted
        .filter((index) => votes.every(({ unlisted }) => unlisted.includes(index)))
        .map((index) => members[index]!.key)
        .filter((key) => honest.has(key) && !isListed(key))
        .map((key) => `all votes say that ${key} was in time, and round ${round} does not list it`);
    });
  },
};

/** The records of finished rounds on a worker's disk lead to the outcome that it ended with. */
const archivesReplay: Invariant = {
  name: 'the archive on each disk replays',
  isCertified: true,
  check(chronicle) {
    const { world, spec, disks, finished } = chronicle;
    const start = withoutModel(genesisOf(spec, startOf(spec)));
    const run = runIdOf(spec);
    return honestIn(world).flatMap((worker) => {
      const { backfill, state } = disks.get(worker)!.files;
      const kept = [...backfill.values()].flatMap((text) => parseKeptRound(text) ?? []);
      const isWhole =
        kept.length === world.rounds && kept.every(({ bodies }) => bodies.length === 0);
      if (!finished.has(worker) || !state || !isWhole) return [];
      const events = kept.flatMap((round) => round.events);
      const { chain: end } = pathOf(
        start,
        gather(
          events,
          { run, spec },
          {
            crypto: cryptoOf(world),
            ...(!world.isReal && { parse: chronicle.read }),
            ...chainRecords(chronicle),
          },
        ),
      ).tip;
      if (end.parent === state.head.parent) return [];
      return [`the archive of worker ${worker} ends after ${end.round} rounds with ${end.parent}`];
    });
  },
};

/** Rounds within which a proof gets into an outcome. */
const PROOF_ROUNDS = 3;

const provenFaults: Invariant = {
  name: 'a proven fault ejects',
  isCertified: true,
  check({ world, reported, saved }) {
    const honest = honestIn(world);
    const last = saved.find(
      ({ worker, round }) => honest.includes(worker) && round === world.rounds,
    );
    if (!last) return [];
    return reported.flatMap(({ worker, event }) => {
      if (event.type !== 'fault' || !honest.includes(worker)) return [];
      if (event.round > world.rounds - PROOF_ROUNDS || last.ejected.includes(event.worker))
        return [];
      return [
        `worker ${worker} proved a fault of ${event.worker} in round ${event.round}: no effect`,
      ];
    });
  },
};

/** Without faults every round counts a contribution. */
const undisturbed: Invariant = {
  name: 'undisturbed rounds count',
  isCertified: true,
  check(chronicle) {
    if (chronicle.world.faults.length > 0) return [];
    return replayOf(chronicle)
      .rounds.filter(({ decided }) => !decided?.outcome.accepted.length)
      .map(({ round }) => `round ${round} counts nothing`);
  },
};

/** What a worker's lines carry in a minute, and its disk holds of one round. */
const MOST = { framesPerMinute: 1500, bytesPerMinute: 3e6, bytesPerRound: 60_000 } as const;

/** Work of a worker grows with time and its disk with rounds, whatever others send. */
const bounded: Invariant = {
  name: 'work and disk are bounded',
  check(chronicle) {
    const { world, loads, disks, seconds } = chronicle;
    const minutes = 1 + seconds() / 60;
    const most = {
      framesPerMinute: MOST.framesPerMinute * growth(world),
      bytesPerMinute: MOST.bytesPerMinute * growth(world) + disclosedBytes(chronicle) / minutes,
      bytesPerRound: MOST.bytesPerRound * growth(world),
    };
    return honestIn(world).flatMap((worker) => {
      const { framesUp = 0, framesDown = 0, bytesUp = 0, bytesDown = 0 } = loads.get(worker) ?? {};
      const { files } = disks.get(worker)!;
      const kept = [...files.backfill.values()].reduce((sum, { length }) => sum + length, 0);
      const counts = {
        framesPerMinute: (framesUp + framesDown) / minutes,
        bytesPerMinute: (bytesUp + bytesDown) / minutes,
        bytesPerRound: (kept + JSON.stringify(files.entry?.own ?? {}).length) / world.rounds,
      };
      return (Object.keys(counts) as (keyof typeof counts)[])
        .filter((name) => counts[name] > most[name])
        .map((name) => `worker ${worker}: ${name} is ${Math.round(counts[name])}`);
    });
  },
};

/** Bytes of a parameter in a disclosed state: 8, in base64, and each chunk may be sent twice. */
const DISCLOSED_BYTES = (2 * 8 * 4) / 3;

/** In a run with a jury, each worker discloses its state of each round, and jurors fetch it; both grow with the model. */
function disclosedBytes({ spec, world }: Chronicle): number {
  if (spec.jury === 0) return 0;
  return DISCLOSED_BYTES * startOf(spec).layout.size * world.rounds * (1 + spec.jury);
}

/** Each member hears all others over each relay. */
const growth = ({ workers, relays }: World): number => (workers * relays) / 4;

export const conduct: readonly Invariant[] = [
  savedFirst,
  votesAnew,
  genuine,
  inTime,
  nothingLost,
  archivesReplay,
  provenFaults,
  undisturbed,
  bounded,
];
