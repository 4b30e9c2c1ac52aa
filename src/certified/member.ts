/** One worker of a certified run as its parts, each with a narrow port. */
import type { EventCrypto } from '../network/event-crypto.ts';
import type { Digest } from '../run/ids.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import type { JoinCredentials } from './decisions/admission.ts';
import type { Certified } from './decisions/chain.ts';
import { createEvidenceStore } from './decisions/evidence.ts';
import type { FeatureMachine } from './features/feature.ts';
import { featuresOf } from './features/list.ts';
import { Refresh, type RefreshPort } from './features/stakes.ts';
import { Branches, type ReadHistory } from './history/branches.ts';
import { Attendance } from './rounds/attendance.ts';
import { type CertifiedPorts, createReporter } from './rounds/events.ts';
import { type Journal, KeyWatch, VoteMemory } from './rounds/journal.ts';
import { Backfill } from './rounds/keep-round.ts';
import {
  type InputPorts,
  MembershipListener,
  OpenRounds,
  RoundInputs,
  type RunMember,
} from './rounds/round.ts';
import type { ProtocolMessage } from './wire/certified-events.ts';
import type { Control } from './wire/control.ts';

export interface MemberOptions extends Pick<InputPorts, 'beacon'> {
  readonly spec: RunSpec;
  readonly control: Control;
  readonly journal: Journal;
  /** End of this worker's reveal chain, and its value for a round. */
  readonly chain: { readonly tip: Digest; reveal(round: number): Digest | '' };
  /** In a run with tiers: the tier that this worker trains; default the full model. */
  readonly tier?: number | undefined;
  /** What its join shows, where the run asks for something. */
  readonly admission?: JoinCredentials | undefined;
  /** Whether this worker wants seats now; default always. */
  readonly wantsSeats?: (() => boolean) | undefined;
  readonly refresh: RefreshPort;
  readonly ports: Pick<CertifiedPorts, 'clock' | 'wire' | 'report'>;
  readonly signal: AbortSignal;
  readonly crypto?: EventCrypto | undefined;
  /** What this machine gives to the features of the run. */
  readonly machine: FeatureMachine;
  /** What relays have of the run, for when it turns out to have branches; and the branch that somebody chose. */
  readonly history: ReadHistory;
  readonly through?: Digest | undefined;
  /** How outcomes are applied; default by computing everything. */
  readonly apply?: RunMember['apply'];
  /** Keeps what placement gives this worker of a checkpoint. Never rejects. */
  readonly hold?: ((state: Certified) => Promise<void>) | undefined;
}

/** Starts listening to proofs of faults of the whole run. */
export function createMember(options: MemberOptions): RunMember {
  const { spec, control, journal, chain, signal, history, through, machine } = options;
  const { clock, report } = options.ports;
  const { me } = options.ports.wire;
  const evidence = createEvidenceStore(options.crypto, spec.limits);
  const reporter = createReporter(report);
  const rounds = new OpenRounds(evidence);
  const refresh = new Refresh(spec, options.refresh, { evidence, reporter });
  const backfill = new Backfill({ control, refresh, reporter, store: journal.backfill });
  const branches = new Branches({ spec, history, through, clock, signal, reporter });
  const shared = { control, evidence, reporter, refresh, clock, signal };
  const inputs = new RoundInputs({ ...shared, beacon: (time) => options.beacon(time) });
  const memory = new VoteMemory({ ...shared, me, journal });
  const keyWatch = new KeyWatch(me, (round) => reporter.keyInUse(round));
  const { admission = { evidence: '' }, wantsSeats, hold } = options;
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
  const identity = { spec, me, tip: chain.tip, tier: options.tier ?? 0 };
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
    close() {
      for (const feature of features) feature.close?.();
      rounds.close();
      membershipListener.close();
      listening.close();
      control.close();
    },
  };
}
