/** Assembles one member of a certified run from its parts and connects them to its messages. */
import type { EventCrypto } from '../network/event-crypto.ts';
import type { Digest } from '../run/ids.ts';
import type { FindCredentials, JoinCredentials } from './decisions/admission.ts';
import { createEvidenceStore } from './decisions/evidence.ts';
import type { FeatureMachine } from './features/feature.ts';
import { featuresOf } from './features/list.ts';
import { Refresh, type RefreshPort } from './features/stakes.ts';
import { Branches, type ReadHistory } from './history/branches.ts';
import { Attendance } from './rounds/attendance.ts';
import { type CertifiedPorts, createReporter } from './rounds/events.ts';
import { KeyWatch, VoteMemory } from './rounds/journal.ts';
import { Backfill } from './rounds/keep-round.ts';
import {
  type InputPorts,
  MembershipListener,
  OpenRounds,
  RoundInputs,
  type RunMember,
} from './rounds/round.ts';
import type { ProtocolMessage } from './wire/certified-events.ts';

export interface MemberOptions
  extends Pick<InputPorts, 'beacon'>,
    Pick<RunMember, 'spec' | 'control' | 'journal' | 'chain' | 'signal' | 'apply' | 'hold'> {
  /** Tier that this worker trains, in a run with tiers; default the full model. */
  readonly tier?: number | undefined;
  /** Index of the group whose experts this worker trains, in a run with groups. */
  readonly group?: number | undefined;
  /** Credentials that its join carries, if the run requires any, or a function that returns them once they exist. */
  readonly admission?: JoinCredentials | FindCredentials | undefined;
  /** Returns whether this worker wants seats; default true. */
  readonly wantsSeats?: (() => boolean) | undefined;
  readonly refresh: RefreshPort;
  readonly ports: Pick<CertifiedPorts, 'clock' | 'wire' | 'report'>;
  readonly crypto?: EventCrypto | undefined;
  /** What the machine provides to the features of the run. */
  readonly machine: FeatureMachine;
  /** Reads the run's history from relays if it forks; `through` is an outcome on the chosen branch. */
  readonly history: ReadHistory;
  readonly through?: Digest | undefined;
}

/** Creates the member and subscribes to fault proofs of the whole run. */
export function createMember(options: MemberOptions): RunMember {
  const { spec, control, journal, chain, signal, history, through, machine } = options;
  const { clock, report } = options.ports;
  const { me } = options.ports.wire;
  const evidence = createEvidenceStore(options.crypto, spec.limits);
  const reporter = createReporter(report);
  const rounds = new OpenRounds(evidence);
  const refresh = new Refresh(spec, options.refresh, { evidence, reporter });
  const backfill = new Backfill({ control, refresh, reporter, store: journal.backfill, clock });
  const branches = new Branches({ spec, history, through, clock, signal, reporter });
  const shared = { control, evidence, reporter, refresh, clock, signal };
  const inputs = new RoundInputs({ ...shared, beacon: (time) => options.beacon(time) });
  const memory = new VoteMemory({ ...shared, me, journal });
  const startedSeconds = clock.now() / 1000;
  const keyWatch = new KeyWatch(
    me,
    (round) => reporter.keyInUse(round),
    (id) => (control.signedAt(id) ?? startedSeconds) < startedSeconds,
  );
  const { admission: given = { evidence: '' }, wantsSeats, hold, tier = 0, group = -1 } = options;
  const admission = typeof given === 'function' ? given : () => given;
  const host = {
    ...shared,
    ...machine,
    spec,
    me,
    take: (message: ProtocolMessage) => rounds.take(message),
  };
  const inRun = featuresOf(spec);
  const features = inRun.flatMap((feature) => feature.create(host) ?? []);
  const take = (message: ProtocolMessage) => {
    rounds.take(message);
    for (const feature of features) feature.heard?.(message);
  };
  const identity = { spec, me, tip: chain.tip, tier, group };
  const attendance = new Attendance({ ...shared, ...identity, take, admission, wantsSeats });
  const refuse = rounds.refuse.bind(rounds);
  const listening = control.listenToFaults({ take, refuse });
  const membershipListener = new MembershipListener(
    inRun.some(({ hearsMembers }) => hearsMembers),
    () => control.listenToMembers({ take, refuse }),
  );
  return {
    spec,
    control,
    evidence,
    reporter,
    refresh,
    branches,
    backfill,
    attendance,
    memory,
    keyWatch,
    inputs,
    rounds,
    membershipListener,
    features,
    hold,
    chain,
    journal,
    clock,
    signal,
    apply: options.apply,
    sha256: machine.sha256,
    close() {
      for (const feature of features) feature.close?.();
      rounds.close();
      membershipListener.close();
      listening.close();
      control.close();
    },
  };
}
