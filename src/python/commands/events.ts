/** Commands for single events of the Python reference: build a gradient, heartbeat or checkpoint; inspect; publish. */
import { ConfigError, safeLine } from '../../base/errors.ts';
import {
  indentedJson,
  type PythonJson,
  type PythonObject,
  pythonFixed,
} from '../../formats/python-json.ts';
import { createSigner, type EventDraft } from '../../network/event.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { parseSecretKey, publicKeyOf } from '../../node/files/keys.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { required, several, text, withDefault } from '../../terminal/flag-table.ts';
import { writeNote, writeResult } from '../../terminal/output.ts';
import { outputFlag } from '../../terminal/state-flags.ts';
import { checkpointDraft, gradientDraft, heartbeatDraft } from '../wire/build-event.ts';
import { readCheckpointFile } from '../wire/checkpoints.ts';
import {
  acceptedMembers,
  type PublishingReport,
  publishingMembers,
  publishNostrainEvent,
} from '../wire/publishing.ts';
import { eventJson, inspectedEvent, type LooseEvent, withAuthor } from '../wire/reference-event.ts';
import { retryTotals } from '../wire/retries.ts';
import {
  openPayload,
  PAYLOAD_WORDS,
  readEventFile,
  readJsonText,
  readPayloadText,
  readTextFile,
} from './files.ts';
import {
  type AuthorFlags,
  authorFlags,
  integer,
  pythonCommand,
  relayFlags,
  resultFlags,
  runFlag,
} from './flags.ts';
import { relayPorts, relaysOf } from './relays.ts';

export const derivePubkey = pythonCommand({
  name: 'derive-pubkey',
  description: 'print the public key of a secret key',
  words: { sec_key: '64 hex digits or nsec1…' },
  flags: { output: outputFlag },
  async run({ output }, { sec_key: secKey }) {
    await writeResult(`${publicKeyOf(parseSecretKey(secKey, 'SEC_KEY'))}\n`, output);
  },
});

export const buildEvent = pythonCommand({
  name: 'build-event',
  description: 'build a gradient event (kind 33333) from a payload, signed or not',
  words: { payload: PAYLOAD_WORDS },
  flags: {
    run: runFlag,
    round: required(integer('<n>', 'round index, from 0', 0)),
    model: required(text('<digest>', 'digest of the state from which the round started')),
    steps: withDefault(integer('<n>', 'number of inner steps taken', 1), 500),
    examples: integer('<n>', 'number of examples seen, the weight of the gradient (default: 1)', 1),
    ...authorFlags,
  },
  async run(flags, { payload: path }) {
    const { run, round, model, steps, examples } = flags;
    const payload = await readPayloadText(path);
    const { stats } = await openPayload(payload, path);
    const about = { run, round, model, steps, examples, ...authorOf(flags) };
    await writeEvent(() => gradientDraft(about, payload, stats), flags);
  },
});

export const buildHeartbeat = pythonCommand({
  name: 'build-heartbeat',
  description: 'build a heartbeat event (kind 33334), signed or not',
  flags: {
    run: runFlag,
    round: required(integer('<n>', 'current round of the worker, from 0', 0)),
    heartbeatInterval: withDefault(
      integer('<s>', 'seconds until the next heartbeat is due', 1),
      60,
    ),
    examples: integer('<n>', 'number of examples the worker has', 1),
    capability: several('<word>', 'ability of the worker, repeatable (default: gradient-event)'),
    advertiseRelay: several('<url>', 'another relay of the worker, repeatable'),
    ...authorFlags,
  },
  async run(flags) {
    const { run, round, examples, heartbeatInterval: interval, capability: capabilities } = flags;
    const relays = flags.advertiseRelay?.map(withoutSecrets);
    const about = { run, round, examples, interval, capabilities, relays, ...authorOf(flags) };
    await writeEvent(() => heartbeatDraft(about), flags);
  },
});

const CHECKPOINT = 'a training checkpoint';

export const buildCheckpoint = pythonCommand({
  name: 'build-checkpoint',
  description: 'build an event (kind 33335) from a training checkpoint, signed or not',
  words: { checkpoint: 'JSON file that run-training --checkpoint-out wrote' },
  flags: {
    historySlot: integer('<n>', 'slot of the checkpoint that it replaces (default: none)', 0),
    ...authorFlags,
  },
  async run(flags, { checkpoint: path }) {
    const json = readJsonText(await readTextFile(path, CHECKPOINT), path, CHECKPOINT);
    const read = readCheckpointFile(json);
    if (!read.ok) {
      const { at, message } = read.issue;
      throw new ConfigError(
        'checkpoint/refused',
        `${path} cannot be published, ${at}: ${message}`,
        {
          hint: 'use a file that `nostrain run-training --checkpoint-out` wrote',
        },
      );
    }
    const about = { slot: flags.historySlot, ...authorOf(flags, read.value.worker) };
    await writeEvent(() => checkpointDraft(about, read.value), flags);
  },
});

/** Returns worker and date of an event. */
function authorOf(
  { worker, secKey, pubkey, createdAt }: AuthorFlags,
  otherwise?: string,
): { readonly worker: string; readonly createdAt: number } {
  const key = secKey ? publicKeyOf(parseSecretKey(secKey, '--sec-key')) : hex(pubkey);
  const name = worker ?? key ?? otherwise;
  if (name !== undefined) {
    return { worker: name, createdAt: createdAt ?? Math.floor(Date.now() / 1000) };
  }
  throw new ConfigError('event/worker', 'the event has no worker', {
    hint: 'use --worker NAME, --sec-key KEY or --pubkey HEX',
  });
}

/** Builds, signs and writes an event. A value that the kind does not allow is an error with the kind's message. */
async function writeEvent(build: () => EventDraft, flags: AuthorFlags): Promise<void> {
  const event = signedBy(flags, draftOf(build));
  await writeResult(`${indentedJson(eventJson(event))}\n`, flags.output);
}

function draftOf(build: () => EventDraft): EventDraft {
  try {
    return build();
  } catch (error) {
    throw error instanceof TypeError ? notOfTheKind(error) : error;
  }
}

const notOfTheKind = (cause: TypeError): ConfigError =>
  new ConfigError('event/value', cause.message, { cause });

function signedBy({ secKey, pubkey, sig, eventId }: AuthorFlags, draft: EventDraft): LooseEvent {
  if (secKey !== undefined) {
    if (pubkey === undefined && sig === undefined && eventId === undefined) {
      return createSigner(parseSecretKey(secKey, '--sec-key'), nativeCrypto).sign(draft);
    }
    throw new ConfigError('event/author', '--sec-key excludes --pubkey, --sig and --event-id', {
      hint: 'use either --sec-key, or --pubkey with --sig and --event-id',
    });
  }
  const author = { pubkey: hex(pubkey), id: hex(eventId), sig: hex(sig) };
  const event = withAuthor(draft, author, nativeCrypto);
  if (event.ok) return event.value;
  const { at, message } = event.issue;
  const flag = { pubkey: '--pubkey', id: '--event-id', sig: '--sig' }[at] ?? at;
  throw new ConfigError('event/author', `${flag}: ${message}`, {
    hint: SIGN_ELSEWHERE,
  });
}

const SIGN_ELSEWHERE = [
  'build it with --pubkey only',
  'have its id signed',
  'then add --sig to the same flags',
].join(', ');

const hex = (typed: string | undefined): string | undefined => typed?.trim().toLowerCase();

export const inspectEvent = pythonCommand({
  name: 'inspect-event',
  description: 'verify a gradient, heartbeat or checkpoint event and print its contents',
  words: { event: 'JSON file with one event' },
  flags: resultFlags('print one JSON object'),
  async run({ json, output }, { event: path }) {
    const event = inspectedEvent(await readEventFile(path));
    const written = json ? indentedJson(event) : linesOf(event).join('\n');
    await writeResult(`${written}\n`, output);
  },
});

/** Members in the order of the lines; each event has only some of them. */
const LINES = [
  'type',
  'event_id',
  'kind',
  'created_at',
  'signed',
  'signing_state',
  'pubkey',
  'run',
  'round',
  'worker',
  'history_slot',
  'next_round',
  'model',
  'rounds_completed',
  'checkpoint_updated_at',
  'heartbeat_interval',
  'steps',
  'example_count',
  'aggregation_weight',
  'compression',
  'parameter_count',
  'selected_values',
  'density',
  'wire_bytes',
  'compression_ratio',
  'capabilities',
  'advertised_relays',
];

const linesOf = (event: PythonObject): readonly string[] =>
  LINES.filter((name) => event[name] !== undefined).map(
    (name) => `${name}: ${wordOf(name, event[name]!, event)}`,
  );

function wordOf(name: string, value: PythonJson, event: PythonObject): string {
  if (name === 'selected_values') return `${value}/${event.total_values}`;
  if (typeof value === 'number') return pythonFixed(value, name === 'density' ? 4 : 2);
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return value.join(', ') || '-';
  return value === null ? '-' : String(value);
}

export const publishEvent = pythonCommand({
  name: 'publish-event',
  description: 'publish a gradient, heartbeat or checkpoint event to relays',
  words: { event: 'JSON file of a signed event' },
  flags: {
    ...relayFlags('time limit of a connection attempt and of each answer, in seconds'),
    ...resultFlags('print one JSON document'),
  },
  async run(flags, { event: file }, ports) {
    const relays = relaysOf(flags);
    const event = await readSigned(file);
    const report = await publishNostrainEvent(relays, event, await relayPorts(flags, ports));
    const [only] = report.relays.length === 1 ? report.accepted : [];
    const members = only ? acceptedMembers(report.eventId, only) : publishingMembers(report);
    const written = flags.json ? indentedJson(members) : publishingLine(report);
    await writeResult(`${written}\n`, flags.output);
  },
});

function publishingLine({ relays, eventId, accepted, failed }: PublishingReport): string {
  const [only] = relays.length === 1 ? accepted : [];
  if (only) return `published ${eventId} to ${only.relay} after ${only.attempts} attempt(s)`;
  const { retries } = retryTotals([...accepted, ...failed]);
  const taken = `${accepted.length}/${relays.length} relays`;
  return `published ${eventId} to ${taken} with ${retries} relay retry(s)`;
}

/** Reads a signed event; prints a note if the signing key is not its worker's. */
async function readSigned(file: string): Promise<LooseEvent> {
  const { event, tags } = await readEventFile(file);
  if (event.pubkey === undefined || event.sig === undefined) {
    throw new ConfigError('event/unsigned', `${file} is not signed, so no relay accepts it`, {
      hint: 'build it again with --sec-key, or with --pubkey and --sig of another signer',
    });
  }
  if (tags.worker !== event.pubkey) {
    const worker = safeLine(tags.worker);
    const mismatch = `note: it names worker ${worker}, but another key signed it`;
    writeNote(`${mismatch}: our workers refuse such events`);
  }
  return event;
}
