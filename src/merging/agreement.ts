/**
 * States of validators: each announces the digest of its state, and one whose state differs from that of most others
 * adopts theirs. So a validator that was offline or stepped alone comes back in the next round.
 */
import {
  createNotifier,
  type Deferred,
  deferred,
  notifiedOrDeadline,
  within,
} from '../base/async.ts';
import { concatBytes, utf8 } from '../base/bytes.ts';
import { sha256Hex } from '../base/hash.ts';
import { deriveKey } from '../base/rng.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import { shortName } from '../run/worker-names.ts';
import { bytesOfVector, stateDigest, type Vector } from '../tensor/params.ts';
import type { Session } from '../worker/ports.ts';
import type { WorkerState } from '../worker/state.ts';
import { type AgreedState, agreeOn, phasesOf, roundAt } from './decide.ts';
import type { MergingOptions } from './exchange.ts';
import type { ValidatorMessage } from './link.ts';

/** Answers to one key about one state; more requests are ignored. */
const MOST_ANSWERS = 4;

interface Announced {
  readonly round: number;
  readonly digest: Digest;
}

export class StateAgreement {
  readonly #session: Session;
  readonly #options: Pick<MergingOptions, 'link' | 'timing'>;
  readonly #changed = createNotifier();
  readonly #announced = new Map<WorkerId, Announced>();
  readonly #digests = new WeakMap<Vector, Digest>();
  readonly #answered = new Map<WorkerId, number>();
  readonly #requests = new Map<EventId, Deferred<ValidatorMessage>>();
  #state: WorkerState | undefined;
  #lonely = '';

  constructor(session: Session, options: Pick<MergingOptions, 'link' | 'timing'>) {
    this.#session = session;
    this.#options = options;
  }

  /** Returns the digest of parameters and momentum. */
  digestOf({ params, momentum }: Pick<WorkerState, 'params' | 'momentum'>): Digest {
    const known = this.#digests.get(params.values);
    if (known !== undefined) return known;
    const ofParams = stateDigest(params, this.#session.ports.createSha256);
    const digest = sha256Hex(concatBytes(utf8(ofParams), bytesOfVector(momentum)));
    this.#digests.set(params.values, digest);
    return digest;
  }

  take(message: ValidatorMessage): void {
    const { step, key, round, digest, to } = message;
    if (step === 'state') {
      this.#announced.set(key, { round, digest });
      this.#changed.notify();
    }
    if (step === 'ask-state' && to === this.#options.link.me) this.#answer(message);
    if (step === 'answer') this.#requests.get(to!)?.settle(message);
  }

  /**
   * Announces a state and compares it with those of the other validators until the round begins. Returns the state to
   * start from, whose round is the one in progress: the same one, or the one that most validators have.
   */
  async settle(state: WorkerState): Promise<WorkerState> {
    const { plan, ports, signal } = this.#session;
    const { link, timing } = this.#options;
    const { clock } = ports;
    this.#state = state;
    this.#answered.clear();
    const current = Math.max(state.round, roundAt(timing, clock.now()));
    const round = Math.min(plan.rounds, current);
    const { beginMs } = phasesOf(timing, round);
    const isLate = round > state.round || clock.now() >= beginMs;
    const untilMs = isLate ? clock.now() + timing.timeoutMs : beginMs;
    this.#announce();
    // others announced theirs before: a request for a state that they do not have makes them repeat it
    if (isLate) this.#askAll(this.digestOf(state));
    const isKnown = (key: WorkerId) => this.#announced.get(key)?.round === round;
    while (clock.now() < untilMs && !(isLate && link.others.every(isKnown))) {
      await notifiedOrDeadline(this.#changed, clock, untilMs, signal);
    }
    const agreed = this.#agreedAt(round, state);
    const adopted = agreed && (await this.#adopt(agreed, round, state));
    const next = adopted ?? { ...state, round };
    this.#state = next;
    return next;
  }

  /** Returns what most validators have at the start of a round; reports those that differ when they change. */
  #agreedAt(round: number, state: WorkerState): AgreedState | undefined {
    const { plan, ports } = this.#session;
    const { me, isValidator } = this.#options.link;
    const states = new Map<WorkerId, Digest>();
    for (const [key, announced] of this.#announced) {
      if (announced.round === round) states.set(key, announced.digest);
    }
    if (state.round === round && isValidator) states.set(me, this.digestOf(state));
    const agreed = agreeOn(
      states,
      (key) => deriveKey('nostrain/merging/tie', plan.run, round, key)[0],
    );
    const names = (agreed?.lonely ?? []).map((key) => (key === me ? 'this one' : shortName(key)));
    const lonely = names.sort().join(', ');
    if (lonely !== this.#lonely) {
      const message =
        lonely === '' ? 'all validators agree again' : `validators with another state: ${lonely}`;
      ports.report({ type: 'notice', message });
    }
    this.#lonely = lonely;
    return agreed;
  }

  /** Returns the agreed state; undefined if no validator that has it sends it. */
  async #adopt(
    { digest, agreeing }: AgreedState,
    round: number,
    state: WorkerState,
  ): Promise<WorkerState | undefined> {
    const { signal, ports } = this.#session;
    const { link, timing } = this.#options;
    const { timeoutMs, retries } = timing;
    const { clock, report } = ports;
    if (digest === this.digestOf(state)) return { ...state, round };
    this.#requests.clear();
    for (const to of agreeing.slice(0, retries)) {
      const untilMs = clock.now() + timeoutMs;
      const answer = await within(this.#ask(to, digest, round), timeoutMs, clock, signal);
      const payload = answer && (await link.pull(answer, untilMs - clock.now()));
      const adopted = payload && stateFrom(payload, state);
      if (adopted && this.digestOf(adopted) === digest) {
        report({ type: 'notice', message: `adopted the state of ${shortName(to)}` });
        return { ...adopted, round };
      }
    }
    const message = `no validator sent the state ${digest.slice(0, 12)}; this one keeps its own`;
    report({ type: 'notice', message });
    return undefined;
  }

  async #ask(to: WorkerId, digest: Digest, round: number): Promise<ValidatorMessage | undefined> {
    const answer = deferred<ValidatorMessage>();
    const { id } = await this.#options.link.send({ step: 'ask-state', round, digest, to });
    this.#requests.set(id, answer);
    const sent = await answer.promise;
    this.#requests.delete(id);
    return sent.key === to ? sent : undefined;
  }

  #askAll(digest: Digest): void {
    const { round } = this.#state!;
    const { link } = this.#options;
    for (const to of link.others) link.tell({ step: 'ask-state', round, digest, to });
  }

  #announce(): void {
    const state = this.#state!;
    const { link } = this.#options;
    if (!link.isValidator) return;
    link.tell({ step: 'state', round: state.round, digest: this.digestOf(state) });
  }

  #answer({ key, digest, id }: ValidatorMessage): void {
    const state = this.#state;
    const answers = this.#answered.get(key) ?? 0;
    if (state === undefined || answers >= MOST_ANSWERS) return;
    this.#answered.set(key, answers + 1);
    if (digest !== this.digestOf(state)) {
      this.#announce();
      return;
    }
    const payload = concatBytes(bytesOfVector(state.params.values), bytesOfVector(state.momentum));
    this.#options.link.tell({ step: 'answer', round: state.round, digest, to: id }, payload);
  }
}

/** Returns a state with the parameters and momentum of an answer; undefined if it has another length. */
function stateFrom(payload: Uint8Array, state: WorkerState): WorkerState | undefined {
  const { layout } = state.params;
  if (payload.length !== 8 * layout.size) return undefined;
  const view = new DataView(payload.buffer, payload.byteOffset);
  const read = (from: number) =>
    Float32Array.from({ length: layout.size }, (_, i) => view.getFloat32(from + 4 * i, true));
  return {
    ...state,
    params: { layout, values: read(0) },
    momentum: read(4 * layout.size),
    norms: [],
    sent: undefined,
    unpacked: undefined,
  };
}
