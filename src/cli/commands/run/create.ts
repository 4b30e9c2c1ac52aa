/** `nostrain run create`: builds a run spec from flags and a file, prints its report, and publishes it to relays. */

import { join } from 'node:path';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import { isObject, type Untyped } from '../../../base/shape.ts';
import { type Made, makeSpec } from '../../../certified/make-spec.ts';
import { securityReportOf } from '../../../certified/security-report.ts';
import { publishRun } from '../../../certified/wire/runs.ts';
import type { Signer } from '../../../network/event.ts';
import { sealedInSpec, sealedManifest } from '../../../node/data/sealed-data.ts';
import { dataOfSpec, withPacked } from '../../../node/data/spec-data.ts';
import { readDocument } from '../../../node/files/documents.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { packForRun, startOfSettings } from '../../../node/pretrained/imported-file.ts';
import { parseHubReference } from '../../../pretrained/hub-reference.ts';
import { SEALED_FILE } from '../../../run/chunked-files.ts';
import { isImported, runDataOf } from '../../../run/data-forms.ts';
import { fields } from '../../../run/options.ts';
import { namesIn, type Settings } from '../../../run/settings.ts';
import { describeAdaptation } from '../../../run/spec/adaptation.ts';
import { presets } from '../../../run/spec/presets.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import { type StakeSnapshot, snapshotId } from '../../../run/stake/stake-snapshot.ts';
import { fullName } from '../../../run/worker-names.ts';
import { defineCommand, type Invocation } from '../../../terminal/command.ts';
import {
  connectionFlagNames,
  connectionFlags,
  connectionOf,
} from '../../../terminal/connection.ts';
import {
  ALL_FIELDS,
  type FlagValues,
  positive,
  setting,
  settingFlags,
  several,
  specFlags,
  text,
  toggle,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import {
  documentFromFlags,
  type FlagRule,
  refuseUnused,
  settingRules,
  settingsFromFlags,
} from '../../../terminal/options.ts';
import { writeNote } from '../../../terminal/output.ts';
import { pushChunks } from '../../shared/chunks.ts';
import { measurePayload } from '../../shared/estimate.ts';
import { readBytes, writeSpec } from '../../shared/files.ts';
import { findOver, publishOver, readStakeFile } from '../../shared/stake-refresh.ts';
import { tabFlag } from '../../shared/tab-link.ts';
import { withRelays } from '../../shared/with-relays.ts';
import { assertWebAddress } from '../handler.ts';
import { printCreated } from './print-created.ts';

export const dataFlags = {
  corpus: text('<file>', 'text or data that all workers train on (default: by model)'),
  ...settingFlags(['base', ...namesIn('training', 'adapter', 'input')]),
  relay: setting(fields.relay),
};

/** Flags of commands that write and publish a spec. */
export const writingFlags = {
  keyFile: text('<file>', 'your secret key (default: created on first use)'),
  secKey: text('<key>', 'secret key as hex or nsec; other users can see it'),
  output: { ...text('<file>', 'file for the spec (default: NAME.run.json)'), short: 'o' },
  json: toggle('print JSON'),
  ...connectionFlags,
};

const createFlags = {
  evaluation: text('<path>', 'evaluation data, if each worker has its own training data'),
  baseFrom: several(
    '<ref>',
    'source of the base for joiners: hf:owner/name@revision, or for tabs https://… of a server ' +
      'that stores files by SHA-256',
  ),
  sealed: text('<folder>', 'encrypted data to train on, from `nostrain shard seal`'),
  tab: tabFlag,
  packed: several('<folder>', 'folder with chunks of the corpus or base, for joiners'),
  packedAt: several('<source>', 'source of those chunks in addition to the relays'),
  workers: whole('<n>', 'workers to plan for (default: founders)', 1, 100_000),
  workersPerIp: withDefault(whole('<n>', 'workers behind one address', 1, 100_000), 1),
  roundSeconds: positive('<s>', 'length of a round, training included'),
  stake: text('<file>', 'table of stakes; published with the run'),
  placement: text('<file>', 'placement document for checkpoint chunks'),
  ...writingFlags,
};

/** Flags of `run create`; `run fork` has some of them. */
type CreateFlags = Partial<FlagValues<typeof createFlags>> &
  FlagValues<typeof dataFlags & typeof writingFlags>;

/** Flags override the file. */
export const createRun = defineCommand({
  name: 'create',
  help: 'create a run: write its spec, report what it means, publish it with --relay',
  more: ALL_FIELDS,
  args: [['[file]', 'spec or partial spec to start from, as TOML or JSON']],
  flags: { ...dataFlags, ...specFlags(), ...createFlags },
  async run(flags, invocation) {
    const [file] = invocation.args;
    const document = file === undefined ? {} : await readDocument(file);
    await createFrom({ document }, flags, invocation);
  },
});

/** What a spec is made from, apart from flags, which win over the document. */
interface Origin {
  readonly document: Untyped;
  /** Evaluation slice that the document names. */
  readonly slice?: Uint8Array | undefined;
}

/** Completes a spec, reports what it means, writes it, and publishes it if relays are named. */
export async function createFrom(
  origin: Origin,
  flags: CreateFlags,
  { command, signal }: Invocation,
): Promise<void> {
  const onNotice = writeNote;
  const signer = await homeSigner(flags, onNotice);
  const stakes = await readStakeFile(flags.stake);
  const training = settingsFromFlags(command);
  const plain = await makeSpec({
    document: origin.document,
    typed: await typedDocument(withStakes(documentFromFlags(command), stakes), flags),
    training,
    me: signer.publicKey,
    isGuarded: true,
    ...(await dataOfSpec(flags, { onNotice, signal })),
    ...(origin.slice && { slice: origin.slice }),
    start: (settings) => startOfSettings(settings, { onNotice, signal }, hintsIn(flags)),
  });
  const chunks = await importedChunks(plain.spec, training.base, signal);
  const packed = [...(flags.packed ?? []), ...chunks];
  const made = { ...plain, spec: await withPacked(plain.spec, { ...flags, packed }, signal) };
  for (const each of made.adaptations) writeNote(describeAdaptation(each));
  const { relay: relays = [] } = flags;
  refuseUnused(command, createRules(made.spec, relays));
  const securityReport = securityReportOf(made.spec, {
    ...flags,
    workersPerIp: flags.workersPerIp ?? 1,
    relays,
    measure: measurePayload,
  });
  const output = flags.output ?? `${made.spec.name.replace(/[^A-Za-z0-9._-]/g, '_')}.run.json`;
  if (flags.tab !== undefined) assertWebAddress(flags.tab);
  if (relays.length > 0) assertAuthor(made.spec, signer);
  if (stakes) assertFounderHasSeat(made.spec, stakes);
  await writeSpec(output, made.spec);
  if (relays.length > 0) await publishStakes(made.spec, stakes, { flags, relays, signal });
  const sending = { flags, relays, signal };
  const published = relays.length === 0 ? [] : await publish(made, signer, sending);
  if (relays.length > 0) await pushModel(chunks, signer, sending);
  const created = {
    ...made,
    securityReport,
    output,
    published,
    stakeFile: flags.stake,
    tab: flags.tab,
  };
  printCreated(created, flags.json === true);
}

/** Packs the files of an imported model. Returns the folders of their chunks. */
const importedChunks = async (
  { training }: RunSpec,
  base: string | undefined,
  signal: AbortSignal,
): Promise<readonly string[]> =>
  base !== undefined && isImported(training) ? packForRun({ ...training, base }, signal) : [];

/** Sends the chunks of an imported model to the relays of the run. */
async function pushModel(
  folders: readonly string[],
  signer: Signer,
  { flags, relays, signal }: Sending,
): Promise<void> {
  const reach = { connection: connectionOf(flags), signer, signal };
  for (const folder of folders) {
    const results = await pushChunks(folder, relays, { copies: 2, days: 30 }, reach);
    for (const { relay, message } of results) if (message !== '') writeNote(`${relay} ${message}`);
  }
}

/** Other sources of the base. Throws here if one is not a hub reference, instead of for each joiner. */
function hintsIn({ baseFrom = [] }: CreateFlags): readonly string[] {
  for (const each of baseFrom) if (!/^https:\/\//.test(each)) parseHubReference(each);
  return baseFrom;
}

/** Returns which flags the created run can use. */
function createRules(
  { data, training, start, files, aggregation, pace, mixture }: RunSpec,
  relays: readonly string[],
): readonly FlagRule[] {
  const specSettings = { ...training, ...aggregation, ...pace, ...mixture, profile: 'nostrain/1' };
  const settings = { ...presets[training.model], ...specSettings } as Settings;
  return [
    { flags: ['baseFrom'], goesWith: '--base', holds: start !== null },
    { flags: ['packedAt'], goesWith: '--packed', holds: files !== null },
    { flags: ['corpus'], goesWith: 'runs that train on one corpus', holds: data.kind === 'corpus' },
    {
      flags: ['evaluation'],
      goesWith: 'other models than linear and mlp',
      holds: runDataOf(training).kinds.length > 1,
    },
    ...settingRules(settings),
    {
      flags: connectionFlagNames.filter((name) => name !== 'relay'),
      goesWith: '--relay',
      holds: relays.length > 0,
    },
    { flags: ['tab'], goesWith: '--relay', holds: relays.length > 0 },
  ];
}

function assertAuthor(spec: RunSpec, signer: Signer): void {
  if (signer.publicKey === spec.author) return;
  throw new ConfigError(
    'run/author',
    `your key is ${fullName(signer.publicKey)}, but the author is ${fullName(spec.author)}`,
    { hint: "publish with the author's key (--key-file FILE), or remove the author from the spec" },
  );
}

/** Adds the address of the corpus, from which joiners download it, the placement document and the sealed data. */
async function typedDocument(typed: Untyped, flags: CreateFlags): Promise<Untyped> {
  const { corpus = '', placement, sealed } = flags;
  return {
    ...(placement !== undefined && {
      placement: await readDocument(placement, 'the placement document', PLACEMENT),
    }),
    ...(corpus.startsWith('https://') && { dataFrom: corpus.replace(/#.*$/, '') }),
    ...typed,
    ...(sealed !== undefined && { data: { kind: 'own' }, sealed: await sealedIn(sealed) }),
  };
}

const sealedIn = async (folder: string) =>
  sealedInSpec(
    sealedManifest(
      await readBytes(join(folder, SEALED_FILE), 'spec/sealed', 'name a sealed folder'),
    ),
  );

const PLACEMENT = 'docs/placement.md has an example of a placement document';

/** Adds the fields that follow from a stake table. Throws `stake/other` if the spec names another snapshot. */
function withStakes(typed: Untyped, table: StakeSnapshot | undefined): Untyped {
  if (table === undefined) return typed;
  const snapshot = snapshotId(table);
  const stakeFields = isObject(typed.stake) ? typed.stake : {};
  if (stakeFields.snapshot !== undefined && stakeFields.snapshot !== snapshot) {
    throw new ConfigError(
      'stake/other',
      `stake.snapshot is ${String(stakeFields.snapshot)}, the table of --stake is ${snapshot}`,
      { hint: 'use only --stake FILE: its id is taken from the file' },
    );
  }
  const source = SOURCES[table.strategy] ?? 'evm';
  return { ...typed, stake: { source, ...stakeFields, snapshot } };
}

/** Stake sources in a spec by strategy of the table; other strategies are of an EVM chain. */
const SOURCES: Readonly<Record<string, string>> = { file: 'file', psyche: 'psyche' };

/** Throws `run/no-seats` if no founder may sit: then the first round could not be decided. */
function assertFounderHasSeat({ founders, committee }: RunSpec, table: StakeSnapshot): void {
  const rows = new Map(table.rows.map(({ key, stake }) => [key, stake]));
  const least = BigInt(committee.minStake);
  if (founders.some((key) => (rows.get(key) ?? -1n) >= least)) return;
  throw new ConfigError('run/no-seats', 'no founder of the run has enough stake for a seat', {
    hint: 'name founders from the table with --founder KEY, or lower --set committee.minStake=N',
  });
}

/** Publishes the stake table, or checks that the relays have it: workers ask the relays of the run for it. */
async function publishStakes(
  { stake }: RunSpec,
  table: StakeSnapshot | undefined,
  { relays, signal }: Sending,
): Promise<void> {
  if (stake.source === 'none') return;
  if (table !== undefined) return publishOver(relays, table, signal);
  await findOver(relays)(stake.snapshot, signal).catch((cause: unknown) => {
    throw new ConfigError(
      'stake/missing',
      `no relay of the run has the stake snapshot ${stake.snapshot}`,
      {
        hint: 'give the snapshot with --stake FILE: it is published with the run',
        cause,
      },
    );
  });
}

interface Sending {
  readonly flags: CreateFlags;
  readonly relays: readonly string[];
  readonly signal: AbortSignal;
}

/** Publishes the run and returns the relays that accepted it. Throws `run/not-published` if none did. */
async function publish(
  { spec, slice }: Made,
  signer: Signer,
  { flags, relays: urls, signal }: Sending,
): Promise<readonly string[]> {
  return withRelays(
    urls,
    { connection: connectionOf(flags), signer, signal },
    async (relaySession) => {
      const sign = signer.sign.bind(signer);
      const { accepted, failed } = await publishRun(spec, slice, { ...relaySession, sign });
      const lines = failed.map(({ relay, message }) => `${relay} ${message}`);
      for (const line of lines) writeNote(line);
      if (accepted.length > 0) return accepted;
      throw new RelayError('run/not-published', `no relay accepted the run: ${lines.join('; ')}`, {
        hint: 'use another --relay, or send the spec file',
      });
    },
  );
}
