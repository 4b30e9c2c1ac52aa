/** Who a built event is by: a key that signs here, a public key whose signature comes from elsewhere, or nobody yet. */
import type { Command } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { indentedJson } from '../../../formats/python-json.ts';
import { createSigner, type EventDraft } from '../../../network/event.ts';
import { parseSecretKey, publicKeyOf } from '../../../node/files/keys.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { writeResult } from '../../../terminal/output.ts';
import { eventJson } from '../../wire/describe-event.ts';
import { type LooseEvent, withAuthor } from '../../wire/loose-event.ts';
import { integer } from '../number-flags.ts';

export interface AuthorFlags {
  readonly worker?: string;
  readonly secKey?: string;
  readonly pubkey?: string;
  readonly sig?: string;
  readonly eventId?: string;
  readonly createdAt?: number;
  readonly output?: string;
}

/** Adds the flags that every build command has. */
export const addAuthorFlags = (command: Command): Command =>
  command
    .option('--worker <name>', 'worker the event speaks for (default: the public key)')
    .option('--sec-key <key>', 'sign with it: 64 hex digits or nsec1…')
    .option('--pubkey <hex>', 'public key of whoever signs elsewhere')
    .option('--sig <hex>', 'signature of this event by that key; needs --pubkey')
    .option('--event-id <hex>', 'the id the event must have; needs --pubkey')
    .addOption(integer('--created-at <s>', 'date of the event in unix seconds (default: now)', 0))
    .option('-o, --output <file>', 'write it there instead of stdout');

/** Who the event speaks for. */
export function workerOf({ worker, secKey, pubkey }: AuthorFlags, otherwise?: string): string {
  const name = worker ?? (secKey ? publicKeyOf(parseSecretKey(secKey, '--sec-key')) : hex(pubkey));
  if (name !== undefined) return name;
  if (otherwise !== undefined) return otherwise;
  throw new ConfigError('event/worker', 'it is not said who the event speaks for', {
    hint: 'give --worker NAME, --sec-key KEY or --pubkey HEX',
  });
}

/** When the event is dated. */
export const createdAtOf = ({ createdAt }: AuthorFlags): number =>
  createdAt ?? Math.floor(Date.now() / 1000);

/** Builds, signs and writes one event. What the kind does not allow is an error in its words. */
export async function writeEvent(build: () => EventDraft, flags: AuthorFlags): Promise<void> {
  const event = authored(draftOf(build), flags);
  await writeResult(`${indentedJson(eventJson(event))}\n`, flags.output);
}

function draftOf(build: () => EventDraft): EventDraft {
  try {
    return build();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw notOfTheKind(error);
  }
}

const notOfTheKind = (cause: TypeError): ConfigError =>
  new ConfigError('event/value', cause.message, { cause });

function authored(draft: EventDraft, { secKey, pubkey, sig, eventId }: AuthorFlags): LooseEvent {
  if (secKey !== undefined) {
    if (pubkey === undefined && sig === undefined && eventId === undefined) {
      return createSigner(parseSecretKey(secKey, '--sec-key'), nativeCrypto).sign(draft);
    }
    throw new ConfigError('event/author', '--sec-key signs; nothing of a signature can be given', {
      hint: 'give either --sec-key, or --pubkey with --sig and --event-id',
    });
  }
  const author = { pubkey: hex(pubkey), id: hex(eventId), sig: hex(sig) };
  const event = withAuthor(draft, author, nativeCrypto);
  if (event.ok) return event.value;
  const { at, message } = event.issue;
  const flag = { pubkey: '--pubkey', id: '--event-id', sig: '--sig' }[at] ?? at;
  throw new ConfigError('event/author', `${flag}: ${message}`, {
    hint: 'build it with --pubkey alone, have that id signed, then give --sig beside the same flags',
  });
}

const hex = (text: string | undefined): string | undefined => text?.trim().toLowerCase();
