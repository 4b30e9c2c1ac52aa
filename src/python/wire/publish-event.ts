/** Publishing one event of the Python reference and telling what became of it, relay by relay. */
import { ConfigError, RelayError } from '../../base/errors.ts';
import { diagnosePublish } from '../../network/transport/diagnose.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { LooseEvent } from './loose-event.ts';
import { type PublishingReport, reportPublishing } from './publishing-report.ts';
import { retryTotals } from './retry-telemetry.ts';

/** What `publishNostrainEvent` needs of a machine, as `createRelayPorts` gives it. */
export interface PublishingPorts {
  /** A set of these relays; it is closed after use. */
  openAll(relays: readonly string[]): RelaySet;
  readonly signal: AbortSignal;
}

/**
 * Sends a signed event to every relay at once, tried as often as the ports say: who took it, after how many attempts, and who
 * did not. The event's kind makes no difference. Throws a RelayError (`relay/not-published`) that words every relay's reason
 * when none took it, a ConfigError for an
 * event that is not signed or an address that is none.
 *
 * @example
 * ```ts
 * import { buildHeartbeatEvent, createRelayPorts, createSigner, publishNostrainEvent } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const signer = createSigner(new Uint8Array(32).fill(3));
 * const heartbeat = { run: 'tea', round: 0, worker: signer.publicKey, interval: 60 };
 * const event = buildHeartbeatEvent({ ...heartbeat, createdAt: Math.floor(Date.now() / 1000) }, signer);
 * const ports = createRelayPorts({ openSocket });
 * const nobody = 'ws://127.0.0.1:1';
 * const report = await publishNostrainEvent([relay.url, nobody], event, ports);
 * await relay.close();
 * report.accepted.map(({ relay, attempts }) => [relay, attempts]); // => [[relay.url, 1]]
 * report.failed.map(({ relay }) => relay); // => [nobody]
 * ```
 */
export async function publishNostrainEvent(
  relays: readonly string[],
  { pubkey, id, sig, ...draft }: LooseEvent,
  ports: PublishingPorts,
): Promise<PublishingReport> {
  if (pubkey === undefined || id === undefined || sig === undefined) {
    throw new ConfigError('event/unsigned', 'the event is not signed: no relay takes it', {
      hint: 'build it with a signer, or with the signature of one',
    });
  }
  const set = ports.openAll(relays);
  try {
    const outcomes = await set.publish({ ...draft, pubkey, id, sig }, { signal: ports.signal });
    const statuses = set.status();
    const noticesOf = (url: string) => statuses.find(({ relay }) => relay === url)?.notices ?? [];
    const report = reportPublishing(id, outcomes, noticesOf);
    if (report.accepted.length > 0) return report;
    const { mostAttempts } = retryTotals(report.failed);
    const tries = mostAttempts === 1 ? '' : ` in ${mostAttempts} attempts`;
    throw new RelayError(
      'relay/not-published',
      `no relay took the event${tries}: ${diagnosePublish(statuses, outcomes).join('; ')}`,
      { hint: 'add another relay (--relay URL), or try more often (--relay-retries N)' },
    );
  } finally {
    await set.close();
  }
}
