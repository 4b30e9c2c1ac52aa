/** Whether a worker takes part in rounds: it joins, states its seat wish, is behind, rests, or has left. */
import { ConfigError } from '../../base/errors.ts';
import { tierOfMember } from '../../consensus/round/seats.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Member } from '../../run/ledger.ts';
import type { Outcome } from '../../run/outcome.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { JoinCredentials } from '../decisions/admission.ts';
import type { Certified } from '../decisions/chain.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';
import type { RunReporter } from './events.ts';

export interface Attended {
  /** It was over before this worker looked. */
  readonly isOver: boolean;
  /** It was over before this worker had trained. */
  readonly isLate: boolean;
  /** It signed a commit to what was decided. */
  readonly hasCommitted: boolean;
}

interface AttendancePorts {
  /** Whether this worker wants seats now; default always. */
  readonly wantsSeats?: (() => boolean) | undefined;
  readonly spec: RunSpec;
  readonly me: WorkerId;
  readonly tip: Digest;
  /** In a run with tiers: the tier that this worker trains. */
  readonly tier: number;
  readonly admission: JoinCredentials;
  readonly control: Pick<Control, 'sign' | 'send'>;
  readonly reporter: RunReporter;
  take(message: ProtocolMessage): void;
}

/** Throws where a member trains another tier than it joined with: its contributions would not count. */
function assertTier(member: Member, tier: number, { founders }: RunSpec): void {
  const joined = tierOfMember(member);
  if (joined === tier) return;
  const isFounder = founders.includes(member.key);
  throw new ConfigError(
    'run/tier',
    isFounder
      ? `founders have the full model, and this one would train tier ${tier}`
      : `this key takes part with tier ${joined}, and would train tier ${tier}`,
    {
      hint: isFounder
        ? 'take --tier 0, or join with a key that founded nothing: --key-file FILE'
        : `take --tier ${joined}, or leave first: nostrain run leave RUN`,
    },
  );
}

export class Attendance {
  /** Whether others may have decided rounds that this worker does not know of. */
  isBehind = true;
  /** It sits this round out, to begin the next one together with the others. */
  isResting = false;
  /** Until it played a round since it was started. */
  isReturning = true;
  /** It helped to decide the round before, and had trained by then: it begins the next one when the others do. */
  isThere = false;
  /** An outcome of this session lists its leave. */
  hasLeft = false;
  /** Its last contribution that relays took in this session. */
  published: EventId | undefined;
  #mayRest = true;
  #announced: { readonly parent: Digest; readonly wants: 0 | 1 } | undefined;
  readonly #ports: AttendancePorts;

  constructor(ports: AttendancePorts) {
    this.#ports = ports;
  }

  /**
   * Notes how a round went. A worker that finished late skips one round to begin the next with the others; only once,
   * or it could be late for ever.
   */
  note({ isOver, isLate, hasCommitted }: Attended, { result }: Outcome): void {
    const { late } = this.#ports.spec;
    this.isBehind = isOver || isLate;
    // it may vote while it still trains, and begin the next round long after the others
    this.isThere = hasCommitted && !isLate;
    this.isReturning &&= isOver;
    const hasRested = this.isResting;
    this.isResting = isLate && this.#mayRest && result === 'final' && late === 'discard';
    if (isLate) this.#mayRest = false;
    else if (!isOver && !hasRested) this.#mayRest = true;
  }

  /**
   * Asks to be in the roster until an outcome lists it; with seat wishes, says again what it wants when that changes.
   */
  announce({ run, parent, recent, ledger }: Certified): void {
    const { spec, me, tip, tier, admission, wantsSeats, control, take } = this.#ports;
    const member = ledger.members.find(({ key }) => key === me);
    if (member) assertTier(member, tier, spec);
    const isIn = member !== undefined && member.tip !== null;
    const wants = !spec.seatWishes || (wantsSeats?.() ?? true) ? 1 : 0;
    const isSettled = isIn && (member.features?.seats?.wants ?? wants) === wants;
    // who was listed and dropped out again has to ask anew
    if (isSettled) this.#announced = undefined;
    const announced = this.#announced;
    // two wishes that follow one outcome would contradict each other
    const isFresh =
      announced?.parent === parent ||
      (announced?.wants === wants && recent.includes(announced.parent));
    if (isSettled || isFresh || ledger.faulted.includes(me)) return;
    this.#announced = { parent, wants };
    const seats = spec.seatWishes && ({ seats: { wants } } as const);
    const widths = spec.tiers > 0 && { widths: { tier } };
    const added = { ...admission.features, ...seats, ...widths };
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

  /** Notes that it left by its own wish. A leave of an earlier session does not end the one that came back. */
  noteLeaves({ round, leaves }: Outcome): void {
    const { me, reporter } = this.#ports;
    if (this.isReturning || !leaves.some(({ key }) => key === me)) return;
    this.hasLeft = true;
    reporter.left(round);
  }
}
