/** What a round is drawn with, entropy and stakes: waited for before the round opens, and got from wherever it is. */
import type { Clock } from '../base/clock.ts';
import type { Control } from '../network/wire/control.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { leastSeconds } from '../run/lifetime.ts';
import { type Electorate, electorateOf, stakesOf } from './electorate.ts';
import type { Missing, ProtocolMessage } from './evidence.ts';
import type { EvidenceStore } from './evidence-store.ts';
import { type Certified, withEntropy } from './history.ts';
import type { Refresh } from './refresh.ts';
import type { Reporter } from './reporter.ts';

/** A round that can be opened: its entropy and stakes are here. */
export interface ReadyRound {
  readonly state: Certified;
  readonly electorate: Electorate;
}

/** Where what a round is drawn with comes from. */
export interface InputSources {
  /** The table of stakes of that id. Rejects when it cannot be had. */
  stakes(snapshot: Digest): Promise<ReadonlyMap<WorkerId, bigint>>;
  /** The beacon value after an outcome of this time. Rejects while nobody has it. */
  beacon(time: number): Promise<Digest>;
}

interface Ports extends InputSources {
  readonly control: Pick<Control<ProtocolMessage>, 'forgetBefore' | 'admit' | 'require'>;
  readonly evidence: EvidenceStore;
  readonly refresh: Pick<Refresh, 'begin'>;
  readonly reporter: Reporter;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Rounds whose messages are kept: a vote of the round before is evidence of the next one. */
const KEPT_ROUNDS = 2;
/** Between two tries to get a stake table or a beacon value. */
const AGAIN_MS = 2000;

export class RoundInputs {
  readonly #ports: Ports;

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  /** The round once everything is here that it is drawn with. What belongs to rounds long over is let go. */
  async ready(certified: Certified): Promise<ReadyRound> {
    const { evidence, control, refresh } = this.#ports;
    evidence.forgetBefore(certified.round - KEPT_ROUNDS);
    control.forgetBefore(certified.round - KEPT_ROUNDS);
    const ledgers = [certified.ledger, ...(certified.before ? [certified.before.ledger] : [])];
    const members = ledgers.flatMap((ledger) => ledger.members.map(({ key }) => key));
    const { spec, round, time } = certified;
    control.require({ since: time, seconds: leastSeconds(spec, round) });
    control.admit(members);
    evidence.admit(members);
    for (;;) {
      const entropy = withEntropy(certified, evidence);
      const stakes = stakesOf(certified.ledger, evidence);
      if (entropy.ok && stakes.ok) {
        const state = entropy.value;
        refresh.begin(state);
        return { state, electorate: electorateOf(state, stakes.value) };
      }
      const missing = [entropy, stakes].flatMap((each) =>
        !each.ok && 'missing' in each ? each.missing : [],
      );
      for (const each of missing) await this.obtain(each, certified);
    }
  }

  /** Gets a stake table or a beacon value, however long it takes. */
  async obtain({ what, id }: Missing, { round }: Pick<Certified, 'round'>): Promise<void> {
    const { evidence, stakes, beacon, reporter, clock, signal } = this.#ports;
    for (;;) {
      try {
        if (what === 'snapshot') evidence.addStakes(id, await stakes(id));
        else if (what === 'beacon') evidence.addBeacon(Number(id), await beacon(Number(id)));
        return;
      } catch (error) {
        signal.throwIfAborted();
        const why = error instanceof Error ? error.message : String(error);
        reporter.unavailable(round, what, why);
        await clock.sleep(AGAIN_MS, signal);
      }
    }
  }
}
