/** `nostrain run create`: a spec out of flags and a file, what it means, and where relays are given its publication. */
import { readFile, writeFile } from 'node:fs/promises';
import { Command } from 'commander';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import { type Made, makeSpec } from '../../../certified/make-spec.ts';
import { type SecurityReport, securityReportOf } from '../../../certified/security-report.ts';
import { encodeRunAddress, publishRun } from '../../../certified/wire/runs.ts';
import type { Signer } from '../../../network/event.ts';
import { hintProblem } from '../../../network/transport/relay-urls.ts';
import { readDocument } from '../../../node/files/documents.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { openBase, startFrom } from '../../../node/pretrained/base-model.ts';
import { parseHubReference } from '../../../node/pretrained/hub.ts';
import { runDataOf } from '../../../run/data-forms.ts';
import { fields } from '../../../run/options.ts';
import { namesIn, type Settings } from '../../../run/settings.ts';
import { presets } from '../../../run/spec/presets.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../../run/spec/run-spec.ts';
import { isObject, type Untyped } from '../../../run/spec/spec-readers.ts';
import { type StakeSnapshot, snapshotId } from '../../../run/stake/stake-snapshot.ts';
import { quoteWords } from '../../../terminal/command-line.ts';
import {
  connectionFlagNames,
  connectionFlags,
  connectionOf,
} from '../../../terminal/connection.ts';
import {
  addFlags,
  type FlagValues,
  positive,
  setting,
  settingFlags,
  several,
  text,
  toggle,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import {
  addSpecFlags,
  documentFromFlags,
  type FlagRule,
  refuseUnused,
  settingRules,
  settingsFromFlags,
} from '../../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { measuring } from '../../shared/estimate.ts';
import { dataOfSpec, withPacked } from '../../shared/spec-data.ts';
import { findOver, publishOver, readStakeFile } from '../../shared/stake-refresh.ts';
import { withRelays } from '../../shared/with-relays.ts';
import { summarizeReport } from './inspect.ts';

const dataFlags = {
  corpus: text('<file>', 'what everybody trains on (default: by the model)'),
  ...settingFlags(['base', ...namesIn('training', 'adapter', 'input')]),
  relay: setting(fields.relay),
};

const createFlags = {
  evaluation: text('<path>', 'each worker has its own data and evaluates on this'),
  baseFrom: several('<ref>', 'where others get the base, as hf:owner/name@revision'),
  packed: several('<folder>', 'chunks of corpus or base, for joiners to fetch'),
  packedAt: several('<source>', 'where those chunks are, next to the relays'),
  keyFile: text('<file>', 'your secret key (default: made once)'),
  secKey: text('<key>', 'secret key as hex or nsec; other users see it'),
  workers: whole('<n>', 'workers to plan for (default: founders)', 1, 100_000),
  workersPerIp: withDefault(whole('<n>', 'workers behind one address', 1, 100_000), 1),
  roundSeconds: positive('<s>', 'length of a round, training included'),
  output: { ...text('<file>', 'where the spec goes (default: NAME.run.json)'), short: 'o' },
  stake: text('<file>', 'table of stakes; published with the run'),
  placement: text('<file>', 'document that names keepers of chunks'),
  json: toggle('print JSON'),
  ...connectionFlags,
};

type CreateFlags = FlagValues<typeof dataFlags & typeof createFlags>;

/** The command; flags win over the file. */
export const createRun = (): Command => {
  const made = new Command('create')
    .description('make a run: write its spec, say what it means, publish it with --relay')
    .argument('[file]', 'spec or part of one to start from, as TOML or JSON')
    .addHelpText('after', '\nAll other fields and settings: nostrain help settings');
  return addFlags(addSpecFlags(addFlags(made, dataFlags)), createFlags).action(create);
};

async function create(
  file: string | undefined,
  flags: CreateFlags,
  command: Command,
): Promise<void> {
  const onNotice = writeNote;
  await interruptibly(async (signal) => {
    const signer = await homeSigner(flags, onNotice);
    const stakes = await readStakeFile(flags.stake);
    const { slice, spec: plain } = await makeSpec({
      document: file === undefined ? {} : await readDocument(file),
      typed: await withPlacement(
        withAddress(withStakes(documentFromFlags(command), stakes), flags),
        flags,
      ),
      training: settingsFromFlags(command),
      me: signer.publicKey,
      ...(await dataOfSpec(flags, { onNotice, signal })),
      start: async (settings) => {
        const whole = await openBase({ ...settings, tiers: 0 }, { onNotice, signal });
        return startFrom(whole, settings, hintsIn(flags));
      },
    });
    const made = { slice, spec: await withPacked(plain, flags, signal) };
    const { relay: relays = [] } = flags;
    refuseUnused(command, createRules(made.spec, relays));
    const securityReport = securityReportOf(made.spec, {
      ...flags,
      relays,
      measure: measuring(onNotice),
    });
    const output = flags.output ?? `${made.spec.name.replace(/[^A-Za-z0-9._-]/g, '_')}.run.json`;
    if (relays.length > 0) assertAuthor(made.spec, signer);
    if (stakes) assertSomebodySits(made.spec, stakes);
    await writeSpec(output, made.spec);
    if (relays.length > 0) await publishStakes(made.spec, stakes, { flags, relays, signal });
    const published =
      relays.length === 0 ? [] : await publish(made, signer, { flags, relays, signal });
    const told = { spec: made.spec, securityReport, output, published, stakeFile: flags.stake };
    tell(told, flags.json === true);
  });
}

/** Other sources of the base; a reference that is none is refused here, not by whoever joins. */
function hintsIn({ baseFrom = [] }: CreateFlags): readonly string[] {
  for (const reference of baseFrom) parseHubReference(reference);
  return baseFrom;
}

/** What a flag goes with in the run that was made. */
function createRules(
  { data, training, start, files, aggregation, pace }: RunSpec,
  relays: readonly string[],
): readonly FlagRule[] {
  const own = { ...training, ...aggregation, ...pace, profile: 'nostrain/1' };
  const settings = { ...presets[training.model], ...own } as Settings;
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
  ];
}

/** Never overwrites the spec of another run, which others joined by. The same one may be made and published again. */
async function writeSpec(file: string, spec: RunSpec): Promise<void> {
  const text = asJson(JSON.parse(canonicalSpec(spec)));
  const before = await readFile(file, 'utf8').catch(() => undefined);
  if (before === text) return;
  await writeFile(file, text, { flag: 'wx' }).catch((cause: unknown) => {
    const exists = (cause as NodeJS.ErrnoException).code === 'EEXIST';
    throw new ConfigError(
      'output/file',
      exists ? `${file} exists and is left as it is` : `cannot write ${file}`,
      { hint: 'name another file with -o FILE', cause },
    );
  });
}

function assertAuthor(spec: RunSpec, signer: Signer): void {
  if (signer.publicKey === spec.author) return;
  throw new ConfigError(
    'run/author',
    `your key is ${signer.publicKey}, the author ${spec.author}`,
    { hint: "publish with the author's key (--key-file FILE), or leave the author out" },
  );
}

/** A corpus that was read from an address is there for others too. */
const withAddress = (typed: Untyped, { corpus = '' }: Pick<CreateFlags, 'corpus'>): Untyped =>
  corpus.startsWith('https://') ? { dataFrom: corpus.replace(/#.*$/, ''), ...typed } : typed;

/** Who keeps chunks of checkpoints, as a placement document says. */
const withPlacement = async (typed: Untyped, { placement }: CreateFlags): Promise<Untyped> =>
  placement === undefined
    ? typed
    : { placement: await readDocument(placement, 'the placement document', PLACEMENT), ...typed };

const PLACEMENT = 'docs/placement.md has an example of a placement document';

/** What a table of stakes says of the run. */
function withStakes(typed: Untyped, table: StakeSnapshot | undefined): Untyped {
  if (table === undefined) return typed;
  const snapshot = snapshotId(table);
  const said = isObject(typed.stake) ? typed.stake : {};
  if (said.snapshot !== undefined && said.snapshot !== snapshot) {
    throw new ConfigError(
      'stake/other',
      `stake.snapshot is ${String(said.snapshot)}, the table of --stake is ${snapshot}`,
      { hint: 'say --stake FILE alone: it names its id' },
    );
  }
  const source = SOURCES[table.strategy] ?? 'evm';
  return { ...typed, stake: { source, ...said, snapshot } };
}

/** What a spec calls the strategies of tables; others are of an EVM chain. */
const SOURCES: Readonly<Record<string, string>> = { file: 'file', psyche: 'psyche' };

/** Without a founder that may sit nobody decides the first round. */
function assertSomebodySits({ founders, committee }: RunSpec, table: StakeSnapshot): void {
  const rows = new Map(table.rows.map(({ key, stake }) => [key, stake]));
  const least = BigInt(committee.minStake);
  if (founders.some((key) => (rows.get(key) ?? -1n) >= least)) return;
  throw new ConfigError('run/no-seats', 'no founder of the run has stake enough for a seat', {
    hint: 'name founders of the table with --founder KEY, or --set committee.minStake=N with less',
  });
}

/** So that the line to send works: workers ask the relays of the run for its table. */
async function publishStakes(
  { stake }: RunSpec,
  table: StakeSnapshot | undefined,
  { relays, signal }: Sending,
): Promise<void> {
  if (stake.source === 'none') return;
  if (table !== undefined) return publishOver(relays, table, signal);
  await findOver(relays)(stake.snapshot, signal).catch((cause: unknown) => {
    throw new ConfigError('stake/missing', `no relay here has the stakes ${stake.snapshot}`, {
      hint: 'name their document with --stake FILE: it is published with the run',
      cause,
    });
  });
}

interface Sending {
  readonly flags: CreateFlags;
  readonly relays: readonly string[];
  readonly signal: AbortSignal;
}

/** The relays that took it. Throws when none did. */
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
      throw new RelayError('run/not-published', `no relay took the run: ${lines.join('; ')}`, {
        hint: 'use another --relay, or send the file',
      });
    },
  );
}

interface CreatedRun {
  readonly spec: RunSpec;
  readonly securityReport: SecurityReport;
  readonly output: string;
  readonly published: readonly string[];
  readonly stakeFile: string | undefined;
}

/** Lines of what a run asks for and warnings, so that there are eight before the one to send. */
const MOST_REPORTED = 5;

function tell(
  { spec, securityReport, output, published, stakeFile }: CreatedRun,
  isJson: boolean,
): void {
  const run = runIdOf(spec);
  const isPublished = published.length > 0;
  const naddr = isPublished
    ? encodeRunAddress({ run, author: spec.author, relays: published })
    : undefined;
  // on a stranger's word nobody dials a private address; who sends this line is none
  const isPrivate = isPublished && published.every((url) => hintProblem(url) !== undefined);
  const line = quoteWords([
    'nostrain',
    'run',
    'join',
    naddr ?? output,
    ...(isPrivate ? ['--allow-private-relays'] : []),
    // relays have it where they have the run
    ...(stakeFile === undefined || isPublished ? [] : ['--stake', stakeFile]),
  ]);
  if (isJson) {
    const address = naddr === undefined ? {} : { naddr };
    writeOut(
      asJson({ run, file: output, ...address, relays: published, join: line, securityReport }),
    );
    return;
  }
  const files = stakeFile === undefined || isPublished ? 'the file' : 'both files';
  const lines = [
    `run id   ${run}`,
    `file     ${output}; every field: nostrain run inspect ${quoteWords([output])}`,
    ...summarizeReport(securityReport, MOST_REPORTED),
    isPublished ? 'send this line to your friends:' : `send them ${files} and this line:`,
    `  ${line}`,
  ];
  writeOut(`${lines.join('\n')}\n`);
}
