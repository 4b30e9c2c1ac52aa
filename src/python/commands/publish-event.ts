/** `nostrain publish-event EVENT`: sends one signed event of a run to relays. */
import { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { safeLine } from '../../base/safe-text.ts';
import { indentedJson, type JsonObject } from '../../formats/python-json.ts';
import type { SignedEvent } from '../../network/event.ts';
import { writeNote, writeResult } from '../../terminal/output.ts';
import { publishNostrainEvent } from '../wire/publish-event.ts';
import {
  acceptedMembers,
  type PublishingReport,
  publishingMembers,
} from '../wire/publishing-report.ts';
import { retryTotals } from '../wire/retry-telemetry.ts';
import {
  addRelayFlags,
  machinePorts,
  type RelayFlags,
  relayPorts,
  relaysOf,
} from './collect/relay-flags.ts';
import { readEventFile } from './payloads.ts';

interface Flags extends RelayFlags {
  readonly json?: true;
  readonly output?: string;
}

export const publishEvent = (ports = machinePorts): Command =>
  addRelayFlags(
    new Command('publish-event')
      .description('publish a gradient, heartbeat or checkpoint event to relays')
      .argument('<event>', 'JSON file of a signed event'),
    'seconds a connection may take, and the answer after it',
  )
    .option('--json', 'print one JSON document')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (file: string, flags: Flags) => {
      const relays = relaysOf(flags);
      const event = await readSigned(file);
      const report = await publishNostrainEvent(relays, event, await relayPorts(flags, ports));
      const text = flags.json ? `${indentedJson(asMembers(report))}\n` : asText(report);
      await writeResult(text, flags.output);
    });

function asMembers(report: PublishingReport): JsonObject {
  const [only] = report.relays.length === 1 ? report.accepted : [];
  return only ? acceptedMembers(report.eventId, only) : publishingMembers(report);
}

function asText({ relays, eventId, accepted, failed }: PublishingReport): string {
  const [only] = relays.length === 1 ? accepted : [];
  if (only) return `published ${eventId} to ${only.relay} after ${only.attempts} attempt(s)\n`;
  const { retries } = retryTotals([...accepted, ...failed]);
  const share = `${accepted.length}/${relays.length} relays`;
  return `published ${eventId} to ${share} with ${retries} relay retry(s)\n`;
}

/** An event that peers would accept, at least by itself. */
async function readSigned(file: string): Promise<SignedEvent> {
  const { event, said } = await readEventFile(file);
  const { pubkey, id, sig, ...draft } = event;
  if (pubkey === undefined || id === undefined || sig === undefined) {
    throw new ConfigError('event/unsigned', `${file} is not signed: no relay takes it`, {
      hint: 'build it again with --sec-key, or with --pubkey and --sig of another signer',
    });
  }
  if (said.worker !== pubkey) {
    const whose = `note: it speaks for ${safeLine(said.worker)}, but the key that signed it is another`;
    writeNote(`${whose}: workers of ours refuse such events`);
  }
  return { ...draft, pubkey, id, sig };
}
