/** Messages between the validators of a run: signs, sends, receives and checks them, and pulls their payloads. */
import { merge } from '../../kinds/merge.ts';
import { anySignal, within } from '../base/async.ts';
import { utf8 } from '../base/bytes.ts';
import { sha256Hex } from '../base/hash.ts';
import { Attachments } from '../network/attachments/attachments.ts';
import { sendChunks } from '../network/attachments/publish.ts';
import { chunkTree, expirationOf } from '../network/chunks/payload.ts';
import type { SignedEvent } from '../network/event.ts';
import type { Sha256 } from '../network/event-crypto.ts';
import type { Subscription } from '../network/transport/relay-set.ts';
import { accept, type Judged, reject } from '../network/wire/judged.ts';
import type { WireOptions } from '../network/wire/wire.ts';
import type { Rejection } from '../run/contribution.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import { Gate, MOST_SKEW_SECONDS } from './decide.ts';

/** A message of a validator, as `kinds/merge.ts` describes it. */
export interface ValidatorMessage {
  readonly id: EventId;
  readonly key: WorkerId;
  readonly createdAt: number;
  readonly step: string;
  readonly round: number;
  readonly digest: Digest;
  readonly nonce: string;
  readonly to?: string | undefined;
  readonly merged?: readonly EventId[] | undefined;
  readonly codec?: string | undefined;
  readonly root?: Digest | undefined;
  readonly bytes?: number | undefined;
}

/** The fields that an author chooses. */
export type MessageFields = Pick<
  ValidatorMessage,
  'step' | 'round' | 'digest' | 'to' | 'merged' | 'codec'
>;

/** Options of a `ValidatorLink`: the run, who may send what, and the relays. */
export interface LinkOptions extends Pick<WireOptions, 'run' | 'relays' | 'signer' | 'clock'> {
  readonly validators: readonly WorkerId[];
  /** Other workers, which may ask for states. */
  readonly workers?: readonly WorkerId[] | undefined;
  readonly sha256: Sha256;
  /** Maximum bytes of a payload: those of a state. */
  readonly maxBytes: number;
}

/** How long relays are asked to keep messages and payloads: a validator needs none of an earlier day. */
const KEPT_SECONDS = 86_400;
/** Maximum refusals reported per round; bounds what a flood of messages can write. */
const MOST_REPORTED = 100;

/** The messages of a validator or worker over its relays; subscribes at once, until `close` is called. */
export class ValidatorLink {
  readonly me: WorkerId;
  readonly validators: readonly WorkerId[];
  readonly isValidator: boolean;
  /** The validators other than this one. */
  readonly others: readonly WorkerId[];
  onMessage: (message: ValidatorMessage) => void = () => undefined;
  onRefused: (rejection: Rejection) => void = () => undefined;
  readonly #options: LinkOptions;
  readonly #gate: Gate;
  readonly #attachments: Attachments;
  readonly #subscription: Subscription;
  readonly #closed = new AbortController();
  #sent = 0;
  #reported = 0;

  constructor(options: LinkOptions) {
    const { run, relays, clock, validators, workers, signer } = options;
    this.me = signer.publicKey;
    this.validators = validators;
    this.isValidator = validators.includes(this.me);
    this.others = validators.filter((key) => key !== this.me);
    this.#options = options;
    this.#gate = new Gate(validators, workers);
    this.#attachments = new Attachments(options);
    const since = Math.floor(clock.now() / 1000) - MOST_SKEW_SECONDS;
    const filter = merge.filter({ scope: [scopeOf(run)] }, { since });
    const onEvent = (event: SignedEvent) => this.#take(event);
    this.#subscription = relays.subscribe([filter], { onEvent }, { longLived: true });
  }

  /**
   * Sends a message, after the chunks of its payload, and returns its id and nonce. Rejects with the signal's reason
   * once the link is closed.
   */
  async send(
    fields: MessageFields,
    payload?: Uint8Array,
  ): Promise<Pick<ValidatorMessage, 'id' | 'nonce'>> {
    const { run, relays, signer, clock, sha256 } = this.#options;
    const old = new AbortController();
    const { signal, release } = anySignal(this.#closed.signal, old.signal);
    const sign = signer.sign.bind(signer);
    const lifetimeAt = (createdAt: number) => ({ createdAt, expiresAt: createdAt + KEPT_SECONDS });
    const nowSeconds = () => Math.floor(clock.now() / 1000);
    if (payload !== undefined) {
      const lifetime = lifetimeAt(nowSeconds());
      await sendChunks([payload], 1, { relays, sha256, sign, lifetime, signal }).enough;
    }
    const tree = payload && chunkTree(payload, sha256);
    const createdAt = nowSeconds();
    const nonce = this.#nonce(createdAt);
    const draft = merge.build(
      {
        run,
        ...fields,
        nonce,
        root: tree?.root,
        bytes: tree?.bytes,
        scope: [scopeOf(run)],
        expiration: expirationOf(lifetimeAt(createdAt)),
      },
      createdAt,
    );
    const event = sign(draft);
    // later, it would be refused
    const sending = relays.publish(event, { signal });
    await within(sending, 1000 * MOST_SKEW_SECONDS, clock, signal).finally(() => {
      release();
      old.abort(new Error('the message is too old'));
    });
    return { id: event.id, nonce };
  }

  /** Sends a message in the background; other validators ask again for one that is lost. */
  tell(fields: MessageFields, payload?: Uint8Array): void {
    void this.send(fields, payload).catch(() => undefined);
  }

  /** Returns the payload of a message; undefined if it does not arrive in time. */
  async pull({ key, root, bytes }: ValidatorMessage, ms: number): Promise<Uint8Array | undefined> {
    const { clock } = this.#options;
    const { signal } = this.#closed;
    if (root === undefined || bytes === undefined || ms <= 0) return undefined;
    const pull = this.#attachments.pull({ worker: key, root, bytes }, { signal });
    const pulled = await within(pull.done, ms, clock, signal).finally(() => pull.stop());
    return pulled?.payload;
  }

  /** Begins a round: refusals are reported again. */
  begin(): void {
    this.#reported = 0;
  }

  close(): void {
    this.#closed.abort(new Error('closed'));
    this.#subscription.close();
    this.#attachments.close();
  }

  #take(event: SignedEvent): void {
    if (event.pubkey === this.me || this.#closed.signal.aborted) return;
    const judged = this.#judge(event);
    if (judged.ok) this.onMessage(judged.value);
    else if (this.#reported++ < MOST_REPORTED) this.onRefused(judged.rejection);
  }

  #judge(event: SignedEvent): Judged<ValidatorMessage> {
    const { run, clock, maxBytes } = this.#options;
    const parsed = merge.parse(event);
    if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
    const { id, pubkey: key, created_at: createdAt } = event;
    const message = { ...parsed.value, id, key, createdAt };
    if (message.run !== run) return reject(event, 'other-run', `run ${message.run}`);
    if ((message.bytes ?? 0) > maxBytes) {
      return reject(event, 'too-large', `${message.bytes} bytes, over ${maxBytes}`);
    }
    const why = this.#gate.refusal(message, clock.now() / 1000);
    return why === undefined ? accept(message) : reject(event, 'unauthorized', why);
  }

  /** Returns a value that others cannot predict: it follows from a signature. */
  #nonce(createdAt: number): string {
    const content = `nonce ${this.#sent++}`;
    const draft = { kind: merge.kind, created_at: createdAt, tags: [], content };
    const { sig } = this.#options.signer.sign(draft);
    return sha256Hex(utf8(sig));
  }
}

const scopeOf = (run: string): string => `${run}/validators`;
