/** A replay as people and programs read it: one line a round, what is wrong, and where it starts to be. */

import type { BadLine } from '../../certified/event-file.ts';
import { type Gathered, gather } from '../../certified/gather.ts';
import { genesisOf } from '../../certified/history.ts';
import type { Beacons } from '../../certified/history-beacons.ts';
import { type Checked, type ReplayedRound, replay } from '../../certified/replay.ts';
import { startOf } from '../../certified/start.ts';
import { runRoot } from '../../consensus/run-root.ts';
import { apartIn } from '../../network/attachments/bodies.ts';
import type { SignedEvent } from '../../network/event.ts';
import { toProposed } from '../../network/wire/proposals.ts';
import { nativeCrypto } from '../../node/native-crypto.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/run-spec.ts';

/** One round. */
export interface ReportLine {
  readonly round: number;
  readonly checked: Checked;
  readonly result?: 'final' | 'void';
  readonly outcome?: Digest;
  readonly attempt?: number;
  readonly view?: number;
  readonly accepted?: readonly { readonly worker: WorkerId; readonly late: boolean }[];
  readonly rejected?: readonly { readonly worker: WorkerId; readonly reason: string }[];
  readonly signers?: number;
  readonly seats?: number;
  readonly joined?: readonly WorkerId[];
  readonly left?: readonly WorkerId[];
  readonly faults?: readonly { readonly worker: WorkerId; readonly kind: string }[];
  /** Other outcomes of the round with a quorum of their own. */
  readonly forks?: readonly Digest[];
  readonly modelRoot?: Digest;
  readonly ledgerRoot?: Digest;
  readonly problem?: string;
  /** What is not here, a few of it. */
  readonly missing?: readonly string[];
}

export interface Report {
  /** Every round was checked in full, and nothing is wrong. */
  readonly ok: boolean;
  readonly run: Digest;
  /** How many a quorum decided. */
  readonly rounds: number;
  readonly firstBad: number | null;
  /** Lines of the file that are no genuine events. */
  readonly bad: readonly BadLine[];
  /** Of the outcomes, one leaf a round; null before the first one. */
  readonly runRoot: Digest | null;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  readonly lines: readonly ReportLine[];
}

export interface ReportedRun {
  readonly run: Digest;
  readonly spec: RunSpec;
  /** Where the run has a beacon. */
  readonly beacons?: Pick<Beacons, 'values'>;
  /** Where it forks: an outcome of the branch to follow. */
  readonly through?: Digest | undefined;
}

const MOST_MISSING = 5;

/** Replays a run and words each round as soon as it is checked. */
export function replayReport(
  { run, spec, beacons, through }: ReportedRun,
  events: Iterable<SignedEvent>,
  bad: readonly BadLine[] = [],
  onLine: (line: ReportLine) => void = () => {},
): Report {
  const all = [...events];
  const gathered = gather(
    all,
    { run, spec },
    { crypto: nativeCrypto, ...(beacons && { beacons: beacons.values }) },
  );
  const playing = replay(genesisOf(spec, startOf(spec)), gathered, through);
  const lines: ReportLine[] = [];
  for (;;) {
    const next = playing.next();
    if (!next.done) {
      const line = lineOf(next.value, gathered);
      lines.push(line);
      onLine(line);
      continue;
    }
    const { state, digests } = next.value;
    const placed = bad.map((each) => placeBad(each, gathered, all));
    // where lines are broken, what is missing is what they said
    const isWrong = ({ problem, missing }: ReportLine): boolean =>
      problem !== undefined || (bad.length > 0 && missing !== undefined);
    const wrong = [
      ...lines.filter(isWrong).map(({ round }) => round),
      ...placed.flatMap(({ round }) => (round === undefined ? [] : [round])),
    ];
    return {
      ok: bad.length === 0 && lines.every(({ checked }) => checked === 'full'),
      run,
      rounds: digests.length,
      firstBad: wrong.length > 0 ? Math.min(...wrong) : null,
      bad: placed,
      runRoot: digests.length > 0 ? runRoot(digests) : null,
      modelRoot: state.modelRoot,
      ledgerRoot: state.ledgerRoot,
      lines,
    };
  }
}

/** A chunk belongs to the round of the manifest or proposal that names it. */
function placeBad(bad: BadLine, { nouns }: Gathered, events: readonly SignedEvent[]): BadLine {
  if (bad.round !== undefined || bad.root === undefined) return bad;
  for (const noun of nouns.values()) {
    if (noun.type !== 'manifest') continue;
    const { root, shards = [], round } = noun.manifest;
    if (root === bad.root || shards.includes(bad.root)) return { ...bad, round };
  }
  for (const event of events) {
    const proposed = apartIn(event)?.root === bad.root ? toProposed(event) : undefined;
    if (proposed?.ok) return { ...bad, round: proposed.value.round };
  }
  return bad;
}

function lineOf(replayed: ReplayedRound, events: Gathered): ReportLine {
  const { round, checked, before, decided, forks, invalid, missing = [] } = replayed;
  const trouble = {
    ...(invalid === undefined ? {} : { problem: `${invalid.code}: ${invalid.message}` }),
    ...(missing.length === 0
      ? {}
      : { missing: missing.slice(0, MOST_MISSING).map(({ what, id }) => `${what} ${id}`) }),
  };
  if (decided === undefined) return { round, checked, ...trouble };
  const { outcome, certificate } = decided;
  const keyOf = (index: number) => before.ledger.members[index]?.key ?? '';
  const keys = (ids: readonly string[]) => ids.map((id) => events.noun(id)?.key ?? '');
  return {
    ...{ round, checked, result: outcome.result, outcome: certificate.digest },
    ...{ attempt: certificate.attempt, view: certificate.view },
    accepted: outcome.accepted.map(({ index, late }) => ({ worker: keyOf(index), late })),
    rejected: outcome.rejected.map(({ index, reason }) => ({ worker: keyOf(index), reason })),
    ...{ signers: certificate.commits.length, seats: certificate.committee.size },
    ...{ joined: keys(outcome.joins), left: keys(outcome.leaves) },
    faults: outcome.faults.flatMap((id) => {
      const noun = events.noun(id);
      return noun?.type === 'fault' ? [{ worker: noun.culprit, kind: noun.kind }] : [];
    }),
    ...{ forks, modelRoot: outcome.modelRoot, ledgerRoot: outcome.ledgerRoot },
    ...trouble,
  };
}
