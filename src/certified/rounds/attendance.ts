/**
 * Tracks the part that this worker takes in rounds: whether it has joined, is behind, rests for a round or has left.
 * Sends its joins, with its seat wish if the spec has them.
 */
import { ConfigError } from '../../base/errors.ts';
import { groupOfMember, tierOfMember } from '../../consensus/round/seats.ts';
import type { Heartbeat } from '../../run/contribution.ts';
import { groupsOf } from '../../run/groups.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Ledger, Member } from '../../run/ledger.ts';
import type { Outcome } from '../../run/outcome.ts';
import { principalOf } from '../../run/spec/feature-fields.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { FindCredentials } from '../decisions/admission.ts';
import type { Certified, Electorate } from '../decisions/chain.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';
import type { RunReporter } from './events.ts';

export interface Attended {
  /** The round was decided before this worker saw it. */
  readonly isOver: boolean;
  /** The round was decided before this worker finished training. */
  readonly isLate: boolean;
  /** The worker signed a commit for the decided outcome. */
  readonly hasCommitted: boolean;
}

interface AttendancePorts {
  /** Whether this worker wants seats now; default true. */
  readonly wantsSeats?: (() => boolean) | undefined;
  readonly spec: RunSpec;
  readonly me: WorkerId;
  readonly tip: Digest;
  /** Tier that this worker trains; 0 in a run without tiers. */
  readonly tier: number;
  /** Index of the group whose experts this worker trains; -1 in a run without groups. */
  readonly group: number;
  readonly admission: FindCredentials;
  readonly control: Pick<Control, 'sign' | 'send'>;
  readonly reporter: RunReporter;
  take(message: ProtocolMessage): void;
}

/**
 * Throws a ConfigError (`run/tier`) if a member trains another tier than it joined with: its contributions would not
 * count.
 */
function assertTier(member: Member, tier: number, { founders }: RunSpec): void {
  const joined = tierOfMember(member);
  if (joined === tier) return;
  const isFounder = founders.includes(principalOf(member));
  throw new ConfigError(
    'run/tier',
    isFounder
      ? `founders have the full model, but this worker would train tier ${tier}`
      : `this key joined with tier ${joined}, but would train tier ${tier}`,
    {
      hint: isFounder
        ? 'use --tier 0, or join with a key that is not a founder: --key-file FILE'
        : `use --tier ${joined}, or leave first: nostrain run leave RUN`,
    },
  );
}

/** Throws a ConfigError (`run/group`) if a member would train another group than the one that it joined. */
function assertGroup(member: Member, group: number, { mixture }: RunSpec): void {
  const joined = groupOfMember(member);
  if (joined < 0 || joined === group) return;
  const { name } = groupsOf(mixture)[joined]!;
  throw new ConfigError('run/group', `this key joined the group ${name}`, {
    hint: `use --set group=${name}, or leave first: nostrain run leave RUN`,
  });
}

/** Rounds during which this worker waits for a member that is back: a slow one must not delay all rounds. */
const RETURN_ROUNDS = 3;

export class Attendance {
  /** Others may have decided rounds that this worker does not know. */
  isBehind = true;
  /** The worker skips this round to begin the next one together with the others. */
  isResting = false;
  /** True until the worker has played a round in this session. */
  isReturning = true;
  /**
   * The worker committed in the previous round and had finished training, so it begins this one together with the
   * others.
   */
  isThere = false;
  /** An outcome in this session lists its leave. */
  hasLeft = false;
  /** Manifest of its last contribution that a relay accepted in this session. */
  published: EventId | undefined;
  #mayRest = true;
  #announced: { readonly parent: Digest; readonly wants: 0 | 1 } | undefined;
  /** Members that were online in the last round but not awaited, and since which round. */
  #online: ReadonlyMap<WorkerId, number> = new Map();
  readonly #ports: AttendancePorts;

  constructor(ports: AttendancePorts) {
    this.#ports = ports;
  }

  /**
   * Records how a round went. A worker that finished late skips one round to begin the next with the others; only once
   * in a row, or it could stay late forever.
   */
  note({ isOver, isLate, hasCommitted }: Attended, { result }: Outcome): void {
    const { late } = this.#ports.spec;
    this.isBehind = isOver || isLate;
    // it may have voted while still training, and then begins the next round late
    this.isThere = hasCommitted && !isLate;
    this.isReturning &&= isOver;
    const hasRested = this.isResting;
    this.isResting = isLate && this.#mayRest && result === 'final' && late === 'discard';
    if (isLate) this.#mayRest = false;
    else if (!isOver && !hasRested) this.#mayRest = true;
  }

  /**
   * Returns the electorate with members awaited that are online again: their heartbeats name this round or the last
   * one. They are awaited from their second round on, since most skip the first to begin the next with the others.
   */
  withReturned(
    electorate: Electorate,
    round: number,
    heartbeats: ReadonlyMap<WorkerId, Pick<Heartbeat, 'round' | 'leaving'>>,
  ): Electorate {
    const { senders, awaited } = electorate;
    const expected = new Set(awaited);
    const online = senders.filter((key) => {
      const { leaving = true, round: reported = -1 } = heartbeats.get(key) ?? {};
      return !expected.has(key) && !leaving && reported >= round - 1;
    });
    this.#online = new Map(online.map((key) => [key, this.#online.get(key) ?? round]));
    const returned = online.filter((key) => {
      const rounds = round - this.#online.get(key)!;
      return rounds >= 1 && rounds <= RETURN_ROUNDS;
    });
    return { ...electorate, awaited: [...awaited, ...returned] };
  }

  /** Sends joins until an outcome lists one; with seat wishes also sends a new join when the wish changes. */
  announce({ run, parent, recent, ledger }: Certified): void {
    const { spec, me, tip, tier, group, wantsSeats, control, take } = this.#ports;
    const member = ledger.members.find(({ key }) => key === me);
    if (member) assertTier(member, tier, spec);
    if (member) assertGroup(member, group, spec);
    const isIn = member !== undefined && member.tip !== null;
    const wants = !spec.seatWishes || (wantsSeats?.() ?? true) ? 1 : 0;
    const isSettled = isIn && (member.features?.seats?.wants ?? wants) === wants;
    // a member that was dropped later has to join again
    if (isSettled) this.#announced = undefined;
    const announced = this.#announced;
    // two wishes after the same outcome would contradict each other
    const isFresh =
      announced?.parent === parent ||
      (announced?.wants === wants && recent.includes(announced.parent));
    if (isSettled || isFresh || ledger.faulted.includes(me)) return;
    const admission = this.#ports.admission({ parent, recent });
    if (admission === undefined) return;
    this.#announced = { parent: admission.after ?? parent, wants };
    const seats = spec.seatWishes && ({ seats: { wants } } as const);
    const widths = spec.tiers > 0 && { widths: { tier } };
    const experts = spec.mixture.experts > 0 && { experts: { group } };
    const added = { ...admission.features, ...seats, ...widths, ...experts };
    const credentials = { ...admission, ...withFeatures(added) };
    const { message, event } = control.sign({
      type: 'join',
      run,
      after: parent,
      tip,
      ...credentials,
    });
    control.send(event);
    take(message);
  }

  /** Returns the settled member that acts for the same principal, which bars this worker from joining. */
  siblingIn({ members }: Ledger): WorkerId | undefined {
    const { me, admission } = this.#ports;
    const principal = admission()?.features?.sessions?.by?.key ?? me;
    return members.find((each) => each.tip !== null && principalOf(each) === principal)?.key;
  }

  /** Records that the worker left by its own wish. A leave of an earlier session does not end this one. */
  noteLeaves({ round, leaves }: Outcome): void {
    const { me, reporter } = this.#ports;
    if (this.isReturning || !leaves.some(({ key }) => key === me)) return;
    this.hasLeft = true;
    reporter.left(round);
  }
}
