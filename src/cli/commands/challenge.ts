/** `nostrain challenge`: recomputes the inner steps of listed contributions and compares the results. */

import { ConfigError } from '../../base/errors.ts';
import { createSlowReporter, whileSlow } from '../../base/slow.ts';
import { openingOf } from '../../certified/decisions/chain.ts';
import { hasModel } from '../../certified/decisions/replay.ts';
import { mostPrivateBytes } from '../../certified/features/disclosure.ts';
import {
  type Checkable,
  type CheckFinding,
  type CheckReason,
  type CheckResult,
  type CheckTools,
  checkable,
  checkContribution,
  type ListedContribution,
  listedContributions,
  statesOn,
} from '../../certified/features/rerun.ts';
import { type Opened, openHistory } from '../../certified/records/archive.ts';
import { heapChunks } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import { hintProblem } from '../../network/transport/relay-urls.ts';
import { EngineRecomputation } from '../../node/engine/task-trainer.ts';
import { toNpub } from '../../node/files/keys.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import type { OpenedModel } from '../../node/pretrained/imported-file.ts';
import { type Digest, roundName, roundNumber } from '../../run/ids.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import { defineCommand } from '../../terminal/command.ts';
import { type FlagValues, roundFlag, text, toggle, whole } from '../../terminal/flag-table.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../terminal/output.ts';
import { type HistorySource, readHistory, sourceFlags } from '../shared/archive-source.ts';
import { signedDocument, signingFlags } from '../shared/signed-document.ts';
import { withRelays } from '../shared/with-relays.ts';
import { workerNamed } from '../shared/worker-flag.ts';
import { openBaseIn } from './replay.ts';

/** A check, with its verdict as an event (kind 30078) if a key was given. */
type SignedCheck = ChallengeCheck & { readonly event?: SignedEvent };

interface ChallengeDocument {
  readonly run: Digest;
  /** Allowed difference between the results of different machines, in millionths. */
  readonly bandPpm: number;
  readonly checks: readonly SignedCheck[];
}

const challengeFlags = {
  ...sourceFlags,
  events: text(
    '<file>',
    'archive to read instead of asking relays; private state is still fetched from ' +
      'rerun.relays',
  ),
  round: roundFlag('<n>', 'check this round only (default: all)'),
  worker: text('<npub>', 'check this worker only (default: all)'),
  base: text('<path>', 'published model that the run starts from'),
  corpus: text('<file>', 'text that the run trains on (default: the standard corpus)'),
  threads: whole('<n>', 'threads of the engine (default: as many as the worker had)', 1, 1024),
  ...signingFlags,
  json: toggle('print JSON'),
};

export const challenge = defineCommand({
  name: 'challenge',
  help:
    'recompute the inner steps of listed contributions and report which match what their ' +
    'authors sent',
  flags: challengeFlags,
  async run(flags, { signal }) {
    const { archive, ...source } = await readHistory(flags, signal);
    const { document, requested } = await challengeRun(archive, flags, {
      ...source,
      sign: (name, verdict) => signedDocument(flags, name, verdict),
      onCheck: (check) => flags.json || writeOut(formatCheck(check)),
    });
    writeOut(flags.json ? asJson(document) : formatTotal(document.checks, requested));
    const isBad = document.checks.some(({ result }) => result === 'fault');
    if (isBad) process.exitCode = exitCodes.failed.code;
  },
});

/** What `challengeRun` checks, and with which files of this machine. */
type CheckFlags = Pick<
  FlagValues<typeof challengeFlags>,
  'round' | 'worker' | 'base' | 'corpus' | 'threads' | 'allowPrivateRelays'
>;

interface CheckPorts extends HistorySource {
  /** Signs a verdict; returns undefined to leave it unsigned. */
  sign(name: string, verdict: object): Promise<SignedEvent | undefined>;
  onCheck?(check: ChallengeCheck): void;
}

/**
 * Recomputes the requested contributions of a run, and returns how many were requested. Throws a ConfigError if the run
 * has no contribution that can be checked.
 */
export async function challengeRun(
  archive: Opened,
  flags: CheckFlags,
  { options, reach, sign, onCheck }: CheckPorts,
): Promise<{ readonly document: ChallengeDocument; readonly requested: number }> {
  const { signal } = reach;
  const { spec, gathered } = await whileSlow('reading the run', writeNote, () =>
    openHistory(archive, options),
  );
  assertRerun(spec);
  const base = await openBaseFor(spec, flags, signal);
  const first = spec.start?.root ? await base?.first(spec.training.seed) : undefined;
  const start = openingOf(spec, { ...options, first });
  if (!hasModel(start)) {
    throw new ConfigError('base/needed', 'this run trains all parameters of a published model', {
      hint: 'name its files with --base PATH',
    });
  }
  const wanted = wantedOf(listedContributions(start, gathered), flags);
  return withRelays(disclosureRelays(spec, flags, reach.relays), reach, async (relaySession) => {
    const trainers = new EngineRecomputation(spec, {
      ...flags,
      openBase: base,
      signal,
      onNotice: writeNote,
    });
    const localChunks = heapChunks(archive.events, mostPrivateBytes(start.params.layout.size));
    const fromRelays = statesOn(relaySession);
    const fetch: CheckTools['fetch'] = async (root) => localChunks(root) ?? fromRelays(root);
    const checks: SignedCheck[] = [];
    try {
      for (const each of checkable(start, gathered, wanted)) {
        const began = performance.now();
        const finding = await find(each);
        const check = checkOf(each, finding, trainers.ours, (performance.now() - began) / 1000);
        onCheck?.(check);
        const { seconds: _, ...verdict } = check;
        const name = `nostrain/verdict/${check.manifest}`;
        const event = await sign(name, { run: runIdOf(spec), ...verdict });
        checks.push({ ...check, ...(event && { event }) });
      }
    } finally {
      await trainers.close();
    }
    const document = { run: runIdOf(spec), bandPpm: spec.rerun.bandPpm, checks };
    return { document, requested: wanted.length };

    async function find({ contribution }: Checkable): Promise<CheckFinding> {
      if (typeof contribution === 'string') return { result: 'unanswered', reason: contribution };
      const trainer = await whileSlow('opening the trainer', writeNote, () =>
        trainers.like(contribution.manifest),
      );
      const slowly = createSlowReporter(writeNote);
      return checkContribution(contribution, {
        trainer,
        evidence: gathered,
        fetch,
        sha256: nativeSha256,
        signal,
        onProgress: (step, steps) => slowly(`recomputed step ${step} of ${steps}`),
      });
    }
  });
}

function checkOf(
  { listed, contribution }: Checkable,
  finding: CheckFinding,
  ours: string,
  seconds: number,
): ChallengeCheck {
  const theirs =
    typeof contribution === 'string' ? '' : (contribution.manifest.features?.rerun?.build ?? '');
  return {
    ...listed,
    ...finding,
    theirs,
    ours: typeof contribution === 'string' ? '' : ours,
    seconds,
  };
}

function assertRerun({ rerun, data }: RunSpec): void {
  if (rerun.permille > 0) return;
  const hasPrivateData = data.kind === 'own';
  throw new ConfigError(
    'run/no-rerun',
    hasPrivateData
      ? 'each worker of this run trains on private data: other machines cannot recompute its ' +
          'steps'
      : 'workers of this run do not commit to private state: their steps cannot be recomputed',
    {
      hint: hasPrivateData
        ? 'members can still screen and score contributions: `nostrain run create --screening ' +
          '--scores`'
        : 'to create a run whose steps can be checked: `nostrain run create --set ' +
          'rerun.permille=N --set rerun.relays=URL`',
    },
  );
}

/**
 * Returns the contributions to check: the one named by round and worker, drawn or not; otherwise all drawn ones that
 * match.
 */
function wantedOf(
  contributions: readonly ListedContribution[],
  { round, worker }: CheckFlags,
): readonly ListedContribution[] {
  const workers = contributions.map((each) => each.worker);
  const key = worker === undefined ? undefined : workerNamed(worker, workers);
  const isNamed = round !== undefined && key !== undefined;
  const wanted = contributions.filter(
    (contribution) =>
      (round === undefined || contribution.round === round) &&
      (key === undefined || contribution.worker === key) &&
      (isNamed || contribution.drawn),
  );
  if (wanted.length > 0) return wanted;
  const where = round === undefined ? 'this run' : roundName(round);
  throw new ConfigError('challenge/nothing', `${where} has no contribution that matches`, {
    hint:
      'use --round N and --worker NPUB for a contribution that was not drawn; `nostrain ' +
      'explain` lists the contributions that counted',
  });
}

async function openBaseFor(
  spec: RunSpec,
  { base, corpus }: CheckFlags,
  signal: AbortSignal,
): Promise<OpenedModel | undefined> {
  if (spec.start === null && base === undefined) return undefined;
  return openBaseIn(spec, { base: base ?? '', corpus, signal, onNotice: writeNote });
}

/** Returns the relays that the run names for private state; private addresses only if the user allowed them. */
function disclosureRelays(
  { rerun }: RunSpec,
  { allowPrivateRelays = false }: CheckFlags,
  known: readonly string[],
): readonly string[] {
  const dialled = rerun.relays.filter(
    (url) => allowPrivateRelays || known.includes(url) || hintProblem(url) === undefined,
  );
  if (dialled.length > 0) return dialled;
  throw new ConfigError(
    'challenge/private-relay',
    `the run discloses private state on ${rerun.relays.join(', ')}, which is on a private ` +
      'network',
    { hint: 'name it with --relay URL, or use --allow-private-relays' },
  );
}

export interface ChallengeCheck extends ListedContribution, CheckFinding {
  /** Engine build that the author reports; `ours` is the one on this machine. */
  readonly theirs: string;
  readonly ours: string;
  readonly seconds: number;
}

const REASONS: Readonly<Record<CheckReason, string>> = {
  'not-shown': 'its starting state is on no relay that the run names',
  'not-linked': 'the contribution before it is not on this branch',
  'not-a-state': 'it committed to data that is not a state of this model',
  'other-bits': 'recomputing its steps on an equivalent machine gives other bits',
  'other-steps': 'recomputing its steps gives other values',
  'other-payload': 'it sent other values than it committed to',
  'other-count': 'it reports a wrong number of steps or examples',
};

const RESULTS: Readonly<Record<CheckResult, string>> = {
  same: 'identical bits',
  near: 'within the tolerance for another machine',
  fault: 'MISMATCH',
  unanswered: 'not checked',
};

const formatCheck = ({
  round,
  worker,
  result,
  reason,
  apartPpm,
  seconds,
}: ChallengeCheck): string =>
  [
    `round ${String(roundNumber(round)).padStart(4)}  ${toNpub(worker)}  ${RESULTS[result]}`,
    ...(reason ? [`: ${REASONS[reason]}`] : []),
    ...(apartPpm === undefined ? [] : [`, ${apartPpm} ppm apart`]),
    ` (${seconds.toFixed(1)} s)\n`,
  ].join('');

function formatTotal(checks: readonly ChallengeCheck[], wanted: number): string {
  const count = (result: CheckResult) => checks.filter((each) => each.result === result).length;
  const parts = [
    `${count('same')} identical`,
    `${count('near')} within tolerance`,
    `${count('fault')} at fault`,
    `${count('unanswered')} not checked`,
  ];
  const rest = wanted - checks.length;
  return `${parts.join(', ')}${rest > 0 ? `; ${rest} more lack the model of their round` : ''}\n`;
}
