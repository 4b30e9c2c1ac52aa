/**
 * The company of a worker that trains with friends: lets in attendees of the lobby, and tells whom the run waits for.
 */
import { type Clock, slept } from '../../base/async.ts';
import { invitationTo } from '../../certified/invitations.ts';
import type { RunEvent } from '../../certified/rounds/events.ts';
import { quorumOf } from '../../consensus/committee/quorum.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { called } from '../../run/worker-names.ts';
import type { InLobby } from './in-lobby.ts';

/** Time between two reports: whom the run waits for is told within this time. */
const CHECK_MS = 5000;
/** Time for others to start training, before they are reported although the run goes on without them. */
const STARTING_MS = 60_000;
/** Maximum attendees that one session lets in. */
const MOST_ATTENDEES = 64;

export interface CompanyPorts extends Pick<InLobby, 'lobby' | 'signer' | 'signal'> {
  /** Whether attendees proved to know the secret of the lobby. */
  readonly areProven: boolean;
  readonly relays: Pick<RelaySet, 'publish'>;
  readonly clock: Clock;
  notify(message: string): void;
}

/** Joins words as in `a, b and c`. */
export const listed = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;

export class Company {
  readonly #spec: RunSpec;
  readonly #ports: CompanyPorts;
  /** Workers that were heard of in this session and are not away. */
  readonly #active = new Set<WorkerId>();
  readonly #letIn = new Set<WorkerId>();
  /** When this worker began to train; undefined before and after. */
  #sinceMs: number | undefined;
  #reported = '';

  constructor(spec: RunSpec, ports: CompanyPorts) {
    this.#spec = spec;
    this.#ports = ports;
  }

  /** Takes an event of this worker. */
  hear(event: RunEvent): void {
    if (event.type === 'hello') this.#sinceMs = this.#ports.clock.now();
    if (event.type === 'done') this.#sinceMs = undefined;
    if (event.type === 'round') {
      const { index, accepted, certified } = event;
      if (index + 1 >= this.#spec.training.rounds) this.#sinceMs = undefined;
      this.#active.clear();
      for (const key of [...accepted, ...(certified?.signers ?? [])]) this.#active.add(key);
    }
    if (event.type === 'stalled') {
      for (const key of event.missing) this.#active.delete(key);
      this.#tellAbsent();
    }
    if (event.type !== 'peer') return;
    if (event.state === 'away') this.#active.delete(event.worker);
    else this.#active.add(event.worker);
  }

  /** Lets in attendees and reports absences until the signal aborts. */
  async keep(): Promise<void> {
    const { clock, signal } = this.#ports;
    while (await slept(clock, CHECK_MS, signal)) {
      await this.#letAttendeesIn();
      this.#tellAbsent();
    }
  }

  async #letAttendeesIn(): Promise<void> {
    const { lobby, areProven, signer, relays, clock, signal, notify } = this.#ports;
    const { admission, founders } = this.#spec;
    const mayInvite = admission.kind === 'trust' && admission.anchors.includes(signer.publicKey);
    if (!mayInvite || !areProven) return;
    for (const key of lobby.attendees()) {
      if (founders.includes(key) || this.#letIn.has(key) || this.#letIn.size >= MOST_ATTENDEES) {
        continue;
      }
      const now = Math.floor(clock.now() / 1000);
      const outcomes = await relays
        .publish(signer.sign(invitationTo(key, now)), { signal })
        .catch(() => []);
      if (!outcomes.some(({ status }) => status === 'accepted')) continue;
      this.#letIn.add(key);
      notify(`${called(key, lobby.nameOf(key))} may join from the next round on`);
    }
  }

  #tellAbsent(): void {
    if (this.#sinceMs === undefined) return;
    const words = this.#absence(this.#ports.clock.now() - this.#sinceMs);
    if (words === this.#reported) return;
    const isBack = words === '' && this.#reported !== '';
    this.#reported = words;
    this.#ports.notify(isBack ? 'all are here again' : words);
  }

  /** Returns who is away and what that means; empty if no founder is, or if some may still be starting. */
  #absence(trainingMs: number): string {
    const { founders, committee } = this.#spec;
    const { lobby, signer } = this.#ports;
    const away = founders.filter((key) => key !== signer.publicKey && !this.#active.has(key));
    if (away.length === 0) return '';
    const names = listed(away.map((key) => called(key, lobby.nameOf(key))));
    const verb = away.length === 1 ? 'is' : 'are';
    const missing = quorumOf(committee.quorum, founders.length) - (founders.length - away.length);
    if (missing <= 0 && trainingMs < STARTING_MS) return '';
    if (missing <= 0) return `${names} ${verb} away; the run goes on without them`;
    if (trainingMs < CHECK_MS) return '';
    const all = away.length === 1 ? 'they are' : 'all of them are';
    const some = missing === 1 ? 'one of them is' : `${missing} of them are`;
    const until = missing === away.length ? all : some;
    return `waiting for ${names}: the run goes on as soon as ${until} back`;
  }
}
