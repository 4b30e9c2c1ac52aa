/** `nostrain run join`: one worker of a run that has a spec. The loop, the folder and the flags are those of `run-training`. */
import { mkdir } from 'node:fs/promises';
import { Argument, Command, Option } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { tierOf } from '../../../certified/decisions/widths.ts';
import { type CertifiedOptions, firstCertified, playCertified } from '../../../certified/join.ts';
import {
  assertAdmitted,
  assertFits,
  assertNoContradiction,
  placeIn,
} from '../../../certified/make-spec.ts';
import { type CertifiedState, certifiedMembers } from '../../../certified/state.ts';
import {
  hintProblem,
  parseRelayUrls,
  withoutSecrets,
} from '../../../network/transport/relay-urls.ts';
import { createWire } from '../../../network/wire/create-wire.ts';
import { relaysOfWorkers } from '../../../network/wire/worker-relays.ts';
import { createStepsAgain, fixedData } from '../../../node/engine/steps-again.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { keptSettings } from '../../../node/files/stored-settings.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { lastingBase, openBaseOf, referenceOf } from '../../../node/pretrained/base-model.ts';
import { LONGEST_EVENT_BYTES, type Protocol } from '../../../node/protocol.ts';
import { runDataOf } from '../../../run/data-forms.ts';
import {
  joinNames,
  type PartialSettings,
  type Settings,
  settingNames,
  unspecifiedNames,
} from '../../../run/settings.ts';
import { settingsOf } from '../../../run/spec/complete-spec.ts';
import { featureSet } from '../../../run/spec/features.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { addFlags } from '../../../terminal/flag-table.ts';
import { addSettingFlags, settingsFromFile, settingsFromFlags } from '../../../terminal/flags.ts';
import { onInterrupt } from '../../../terminal/interrupt.ts';
import { writeNote } from '../../../terminal/output.ts';
import {
  assertWritable,
  type StateOutput,
  stateOutputFlags,
} from '../../../terminal/state-flags.ts';
import { type FlagRule, refuseUnused } from '../../../terminal/unused-flags.ts';
import { addWorkerFlags, type WorkerFlags } from '../../../terminal/worker-flags.ts';
import { neededBeacon } from '../../shared/beacon.ts';
import { addBringFlags, type BringFlags, bringFiles } from '../../shared/bring-files.ts';
import {
  addNamingFlags,
  delegationIn,
  type NamingFlags,
  namingRules,
} from '../../shared/delegation.ts';
import { accessOf } from '../../shared/endpoints.ts';
import { type FoundRun, findRun, hintOption, keepSpec, runDir } from '../../shared/find-run.ts';
import { holdRules, openChunks } from '../../shared/hold-flags.ts';
import { addMemberFlags, homeSigner, type MemberFlags } from '../../shared/member-flags.ts';
import { runWorkerCommand } from '../../shared/run-worker.ts';
import { sliceOf } from '../../shared/spec-data.ts';
import {
  createRefreshPort,
  readStakeFile,
  type StakeOptions,
  tablesOf,
} from '../../shared/stake-refresh.ts';
import { type Reach, withRelays } from '../../shared/with-relays.ts';

const tell = writeNote;

/** The command. */
export const joinRun = (): Command => hideShared(addNamingFlags(joining()).action(trainIn));

const SHARD =
  'part of the data to train on, such as 2/4 (default: by place among the founders, else by key)';

/** What the spec says already is taken too, and refused where it differs. */
function hideShared(command: Command): Command {
  for (const option of command.options) {
    const name = option.attributeName();
    if (name === 'shard') option.description = SHARD;
    const isSetting = settingNames.some((each) => each === name);
    if (isSetting && !joinNames.some((each) => each === name)) option.hideHelp();
  }
  return command;
}

const joining = (): Command =>
  addBringFlags(
    addMemberFlags(
      addFlags(
        addWorkerFlags(
          addSettingFlags(
            new Command('join')
              .description('train as one worker of a run; repeat the command to go on after a stop')
              .addArgument(new Argument('<run>', 'file, naddr1… or name of the run'))
              .addOption(hintOption())
              .option(
                '--discover-relays',
                'use relays too that workers of the run name in heartbeats and relay lists (NIP-65)',
              )
              .addOption(advertiseOption()),
          ),
          'your data folder',
        ),
        stateOutputFlags,
      ),
    ),
  );

/** What others are told of where this worker is; nothing unless it is asked for. */
const advertiseOption = (): Option =>
  new Option(
    '--advertise-relay <url>',
    'relay that heartbeats name, without user, password and query; repeatable (default: none)',
  ).argParser((url: string, before: readonly string[] = []) => [...before, url]);

interface JoinFlags extends BringFlags, MemberFlags, NamingFlags, StateOutput {
  readonly advertiseRelay?: readonly string[] | undefined;
  readonly discoverRelays?: boolean;
}

/** Trains in the run of this file or address, to its end or to Ctrl-C. */
export async function trainIn(source: string, flags: JoinFlags, command: Command): Promise<void> {
  assertWritable(flags);
  const file = flags.settings === undefined ? {} : await settingsFromFile(flags.settings);
  const asked: PartialSettings = { ...file, ...settingsFromFlags(command) };
  // what is wrong with a key on the command line is said when the worker starts
  const signer = await homeSigner(flags, flags.secKey === undefined ? tell : () => undefined);
  const advertise = flags.advertiseRelay && parseRelayUrls(flags.advertiseRelay);
  const interrupt = onInterrupt();
  let opened: Awaited<ReturnType<typeof openChunks>> | undefined;
  const { signal } = interrupt;
  try {
    const { dir: folder, allowPrivateRelays } = flags;
    const find = { relays: asked.relay, dir: folder, allowPrivateRelays, signer, signal };
    const found = await findRun(source, { ...find, connection: connectionOf(flags) });
    const { run, spec } = found;
    const discovered = await withDiscovered(found, flags, { signer, signal });
    const { connection } = discovered;
    const relays = withPlaces(spec, discovered.relays, flags);
    assertNoContradiction(spec, asked);
    refuseUnused(command, [...joinRules(spec, asked), ...holdRules(spec, flags)]);
    const beacon = neededBeacon(spec, flags);
    const dir = flags.dir ?? runDir(run);
    const delegation = await delegationIn(spec, flags, { run, signer, dir, connection, signal });
    assertAdmitted(spec, delegation?.key ?? signer.publicKey);
    const { branch, trust } = flags;
    const place = placeIn(spec, signer.publicKey, asked);
    const given = await readStakeFile(flags.stake);
    const own = { corpus: flags.corpus, base: asked.base };
    const reach = { relays, publicOnly: connection.publicOnly, signal };
    const { corpus, base } = await bringFiles(spec, own, flags, reach);
    const wanted = settingsOf(spec, {
      ...asked,
      ...(await keptChoices(dir, asked)),
      ...(base === undefined ? {} : { base }),
      ...place,
      relay: relays,
    });
    const settings = { ...wanted, base: baseIn(spec, wanted) };
    assertReady(spec, settings, flags);
    const whole = spec.tiers > 0 ? undefined : await baseOf(spec, settings, signal);
    await openDir(dir, spec);
    const slice = await sliceOf(spec, dir, relays, { connection, signer, signal });
    assertFits(spec, slice);
    opened = await openChunks(spec, { dir, signer, flags });
    await runWorkerCommand(
      {
        settings,
        dir,
        keyDir: dataHome(),
        advertise,
        openBase: async (each, notes) => whole ?? openBaseOf(spec.start!, each, notes),
        publicOnly: connection.publicOnly,
        fixed: fixedData(spec, slice),
        protocol: certifiedProtocol({
          spec,
          beacon,
          branch,
          trust,
          sha256: nativeSha256,
          crypto: nativeCrypto,
          chunks: opened.chunks,
          delegation,
          wantsSeats: () => flags.seats !== false,
          tables: tablesOf(given),
          stepsAgain: createStepsAgain(spec, whole, settings, { corpus, signal }),
          stakes: createRefreshPort(
            spec,
            { given, chain: chainOf(spec, flags) },
            settings.relay,
            signal,
          ),
        }),
      },
      corpus === undefined ? flags : { ...flags, corpus },
      { title: `run ${spec.name}`, interrupt },
    );
  } finally {
    await opened?.close();
    interrupt.dispose();
  }
}

/** What a worker that goes on has as before where nobody says: where its base is, and its tier. */
async function keptChoices(dir: string, asked: PartialSettings): Promise<PartialSettings> {
  const { base = '', tier = 'auto' } = await keptSettings(dir);
  const isOpen = (asked.tier ?? 'auto') === 'auto';
  return { base: asked.base ?? base, ...(isOpen && { tier }) };
}

/** Where it is now. */
const baseIn = ({ start }: RunSpec, { base }: Settings): string =>
  start === null ? '' : lastingBase(referenceOf(start, base));

/** The published model that the run starts from, held against its spec. */
const baseOf = async ({ start }: RunSpec, settings: Settings, signal: AbortSignal) =>
  start === null ? undefined : await openBaseOf(start, settings, { onNotice: tell, signal });

/** The relays with those that the run shows private state on, as far as a stranger may name them. */
function withPlaces(
  { rerun }: RunSpec,
  relays: readonly string[],
  { allowPrivateRelays = false }: JoinFlags,
): readonly string[] {
  const named = rerun.relays.filter((url) => allowPrivateRelays || hintProblem(url) === undefined);
  return [...relays, ...named.filter((url) => !relays.includes(url))];
}

const DISCOVER_MS = 10_000;

/** The relays of a run, and with `--discover-relays` those that its workers name. */
async function withDiscovered(
  found: FoundRun,
  { discoverRelays, allowPrivateRelays: allowPrivate = false }: JoinFlags,
  reach: Pick<Reach, 'signer' | 'signal'>,
): Promise<Pick<FoundRun, 'relays' | 'connection'>> {
  const { run, spec, relays, connection } = found;
  if (!discoverRelays || relays.length === 0) return found;
  const own = relays.find((url) => hintProblem(url) !== undefined);
  if (own !== undefined && !allowPrivate) {
    throw new ConfigError(
      'flag/discover-relays',
      `--discover-relays dials what strangers name, and ${withoutSecrets(own)} is of a private network`,
      {
        hint: 'leave it out, or say --allow-private-relays: then theirs may lead into your network',
      },
    );
  }
  const asked = { run, founders: spec.founders, known: relays, allowPrivate, waitMs: DISCOVER_MS };
  const more = await withRelays(relays, { ...reach, connection }, (board) =>
    relaysOfWorkers({ ...asked, relays: board.relays, signal: board.signal }),
  );
  tell(more.length === 0 ? 'no worker names another relay' : `workers also use ${more.join(', ')}`);
  const publicOnly = allowPrivate ? connection.publicOnly : true;
  return { relays: [...relays, ...more], connection: { ...connection, publicOnly } };
}

/** How the next stakes are read, where the worker names endpoints; it waits for their block as long as a round may last. */
const chainOf = ({ timing }: RunSpec, flags: MemberFlags): StakeOptions['chain'] =>
  flags.rpc.length === 0
    ? undefined
    : accessOf({ ...flags, wait: Math.ceil(timing.graceMaxMs / 1000) });

/** Of what may be typed beside a run, what its spec leaves no room for. */
const joinRules = (spec: RunSpec, { sync }: PartialSettings): readonly FlagRule[] => [
  { flags: unspecifiedNames, goesWith: 'runs without a spec', holds: false },
  {
    flags: ['sync'],
    goesWith: 'runs without a spec; here strict:N alone says for how many workers to wait',
    holds: sync?.strategy === 'strict',
  },
  ...namingRules(spec),
  {
    flags: ['base'],
    goesWith: 'runs that start from a published model',
    holds: spec.start !== null,
  },
  { flags: ['tier'], goesWith: 'runs with tiers of width', holds: spec.tiers > 0 },
  {
    flags: ['tierStrategy'],
    goesWith: 'runs with tiers of a published model',
    holds: spec.tiers > 0 && spec.start !== null,
  },
  { flags: ['corpus'], goesWith: 'runs that train on a corpus', holds: spec.data.kind !== 'made' },
];

/** What only a joiner can say. */
function assertReady(
  { data, rerun, training }: RunSpec,
  settings: Settings,
  flags: WorkerFlags,
): void {
  if (rerun.permille > 0 && settings.precision !== 'f32') {
    throw new ConfigError(
      'flag/precision',
      `the steps of this run are run again by others, in f32: those in ${settings.precision} could lead further away than its band`,
      { hint: 'leave --precision out' },
    );
  }
  if (settings.relay.length === 0) {
    throw new ConfigError('flag/relay', 'the file of a run names no relay', {
      hint: 'say where its workers meet: --relay URL',
    });
  }
  if (data.kind === 'own' && flags.corpus === undefined) {
    throw new ConfigError('flag/corpus', 'each worker of this run trains on data of its own', {
      hint: `name yours, a ${runDataOf(training).corpus}, with --corpus PATH`,
    });
  }
}

async function openDir(dir: string, spec: RunSpec): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
    throw new ConfigError('run/folder', `cannot make the run folder ${dir}`, {
      hint: 'name another one with --dir DIR',
      cause,
    });
  });
  await keepSpec(dir, spec);
}

/** Whether the parameters of round 0 are those of a base, and do not follow from the spec. */
const isGiven = ({ start }: RunSpec): boolean => (start?.root ?? null) !== null;

type Members = Pick<CertifiedState, 'head' | 'pending' | 'contributed'>;

export const certifiedProtocol = (options: CertifiedOptions): Protocol<Members> => ({
  longestEventBytes: LONGEST_EVENT_BYTES,
  members: certifiedMembers,
  maxPayloadBytes: options.spec.limits.payloadBytes,
  first: ({ lossBefore, params }, parts) => {
    const first = isGiven(options.spec) ? Float32Array.from(params.values) : undefined;
    const tier = tierOf(options.spec, params.layout);
    return firstCertified({ ...options, first }, lossBefore, { ...parts, tier });
  },
  open: async (wireOptions) => ({
    wire: createWire({ ...wireOptions, features: featureSet(options.spec.features) }),
    play: async (start, session, parts) => {
      const { seed } = options.spec.training;
      const first = isGiven(options.spec) ? await parts.base?.first(seed) : undefined;
      return playCertified(start, session, { ...options, first }, parts);
    },
  }),
});
