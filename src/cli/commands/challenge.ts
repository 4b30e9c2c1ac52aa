/** `nostrain challenge`: runs the inner steps of listed contributions again and compares the results. */

import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
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
import { openHistory } from '../../certified/records/archive.ts';
import { heapChunks } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import { hintProblem } from '../../network/transport/relay-urls.ts';
import { EngineRecomputation } from '../../node/engine/task-trainer.ts';
import { toNpub } from '../../node/files/keys.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import type { BaseModel } from '../../node/pretrained/base-model.ts';
import { type Digest, roundName, roundNumber } from '../../run/ids.ts';
import { type RunSpec, runIdOf } from '../../run/spec/run-spec.ts';
import {
  commandWith,
  type FlagValues,
  roundFlag,
  text,
  toggle,
  whole,
} from '../../terminal/flag-table.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../terminal/output.ts';
import { openSource, sourceFlags, sourceOf } from '../shared/archive-source.ts';
import { signedDocument, signingFlags } from '../shared/signed-document.ts';
import { withRelays } from '../shared/with-relays.ts';
import { workerKeyOf } from './explain.ts';
import { openBaseIn } from './replay.ts';

/** The same with its verdict as an event (kind 30078), where it was signed. */
type SignedCheck = ChallengeCheck & { readonly event?: SignedEvent };

interface ChallengeDocument {
  readonly run: Digest;
  /** How far what comes out may lie from what was said, in millionths, where machines differ. */
  readonly bandPpm: number;
  readonly checks: readonly SignedCheck[];
}

const challengeFlags = {
  ...sourceFlags,
  events: text(
    '<file>',
    'read this instead of asking relays; those of rerun.relays are asked for private state ' +
      'all the same',
  ),
  round: roundFlag('<n>', 'a round (default: every one)'),
  worker: text('<npub>', 'a worker (default: everybody)'),
  base: text('<path>', 'published model that the run starts from'),
  corpus: text('<file>', 'text that the run trains on (default: the usual one)'),
  threads: whole('<n>', 'threads of the engine (default: as many as the worker had)', 1, 1024),
  ...signingFlags,
  json: toggle('print JSON'),
};

export type ChallengeFlags = FlagValues<typeof challengeFlags>;

export const challenge = (): Command =>
  commandWith(
    'challenge',
    'run the inner steps of listed contributions again and say which are what their ' +
      'authors say',
    challengeFlags,
  ).action(async (flags: ChallengeFlags, command: Command) => {
    refuseUnused(command, []);
    await interruptibly((signal) => run(flags, signal));
  });

async function run(flags: ChallengeFlags, signal: AbortSignal): Promise<void> {
  const source = await sourceOf(flags, signal);
  const archive = await openSource(flags, source);
  const { spec, gathered } = await openHistory(archive, source.options);
  assertRerun(spec);
  const base = await openBaseFor(spec, flags, signal);
  const first = spec.start?.root ? await base?.first(spec.training.seed) : undefined;
  const start = openingOf(spec, { ...source.options, first });
  if (!hasModel(start)) {
    throw new ConfigError('base/needed', 'this run trains all parameters of a published model', {
      hint: 'name its files with --base PATH',
    });
  }
  const wanted = wantedOf(listedContributions(start, gathered), flags);
  const document: ChallengeDocument = await withRelays(
    disclosureRelays(spec, flags, source.reach.relays),
    source.reach,
    async (relaySession) => {
      const trainers = new EngineRecomputation(spec, {
        ...flags,
        openBase: base,
        signal,
        onNotice: writeNote,
      });
      const here = heapChunks(archive.events, mostPrivateBytes(start.params.layout.size));
      const fromRelays = statesOn(relaySession);
      const fetch: CheckTools['fetch'] = async (root) => here(root) ?? fromRelays(root);
      const checks: SignedCheck[] = [];
      try {
        for (const each of checkable(start, gathered, wanted)) {
          const began = performance.now();
          const finding = await find(each);
          const check = checkOf(each, finding, trainers.ours, (performance.now() - began) / 1000);
          if (!flags.json) writeOut(formatCheck(check));
          const { seconds: _, ...said } = check;
          const name = `nostrain/verdict/${check.manifest}`;
          const event = await signedDocument(flags, name, { run: runIdOf(spec), ...said });
          checks.push({ ...check, ...(event && { event }) });
        }
      } finally {
        await trainers.close();
      }
      return { run: runIdOf(spec), bandPpm: spec.rerun.bandPpm, checks };

      async function find({ contribution }: Checkable): Promise<CheckFinding> {
        if (typeof contribution === 'string') return { result: 'unanswered', reason: contribution };
        const trainer = await trainers.like(contribution.manifest);
        return checkContribution(contribution, {
          trainer,
          evidence: gathered,
          fetch,
          sha256: nativeSha256,
          signal,
        });
      }
    },
  );
  writeOut(flags.json ? asJson(document) : formatTotal(document.checks, wanted.length));
  const isBad = document.checks.some(({ result }) => result === 'fault');
  if (isBad) process.exitCode = exitCodes.failed.code;
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
  const isOwn = data.kind === 'own';
  throw new ConfigError(
    'run/no-rerun',
    isOwn
      ? 'each worker of this run trains on a text of its own: nobody else can run its steps again'
      : 'workers of this run commit to no private state: their steps cannot be run again',
    {
      hint: isOwn
        ? 'members can still screen and score what they send: `nostrain run create --screening ' +
          '--scores`'
        : 'a run whose steps can be checked is made by `nostrain run create --set ' +
          'rerun.permille=N --set rerun.relays=URL`',
    },
  );
}

/** The row that was asked for, drawn or not; else all that were drawn. */
function wantedOf(
  contributions: readonly ListedContribution[],
  { round, worker }: ChallengeFlags,
): readonly ListedContribution[] {
  const key = worker === undefined ? undefined : workerKeyOf(worker);
  const isNamed = round !== undefined && key !== undefined;
  const wanted = contributions.filter(
    (contribution) =>
      (round === undefined || contribution.round === round) &&
      (key === undefined || contribution.worker === key) &&
      (isNamed || contribution.drawn),
  );
  if (wanted.length > 0) return wanted;
  const where = round === undefined ? 'this run' : roundName(round);
  throw new ConfigError('challenge/nothing', `${where} has no contribution that was asked for`, {
    hint:
      'say --round N and --worker NPUB for one that was not drawn; `nostrain explain` ' +
      'lists who counted',
  });
}

/** The base of a run that has one. */
export async function openBaseFor(
  spec: RunSpec,
  { base, corpus }: ChallengeFlags,
  signal: AbortSignal,
): Promise<BaseModel | undefined> {
  if (spec.start === null && base === undefined) return undefined;
  return openBaseIn(spec, { base: base ?? '', corpus, signal, onNotice: writeNote });
}

/** Relays that the run names for private state; private addresses only if the user allowed them. */
export function disclosureRelays(
  { rerun }: RunSpec,
  { allowPrivateRelays = false }: ChallengeFlags,
  known: readonly string[],
): readonly string[] {
  const dialled = rerun.relays.filter(
    (url) => allowPrivateRelays || known.includes(url) || hintProblem(url) === undefined,
  );
  if (dialled.length > 0) return dialled;
  throw new ConfigError(
    'challenge/private-relay',
    `the run shows private state on ${rerun.relays.join(', ')}, in a private network`,
    { hint: 'say --relay URL with it, or --allow-private-relays' },
  );
}

export interface ChallengeCheck extends ListedContribution, CheckFinding {
  /** What the author says of its machine, and of this one. */
  readonly theirs: string;
  readonly ours: string;
  readonly seconds: number;
}

const REASONS: Readonly<Record<CheckReason, string>> = {
  'not-shown': 'what it starts from is on no relay that the run names',
  'not-linked': 'the contribution before it is not on this branch',
  'not-a-state': 'it committed to what is no state of this model',
  'other-bits': 'its steps lead to other bits on a machine that computes alike',
  'other-steps': 'its steps lead elsewhere',
  'other-payload': 'it sent other values than it committed to',
  'other-count': 'it says another number of steps or examples',
};

const RESULTS: Readonly<Record<CheckResult, string>> = {
  same: 'the same bits',
  near: 'near enough for another machine',
  fault: 'NOT WHAT IT SAYS',
  unanswered: 'not checked',
};

export const formatCheck = ({
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

export function formatTotal(checks: readonly ChallengeCheck[], wanted: number): string {
  const count = (result: CheckResult) => checks.filter((each) => each.result === result).length;
  const parts = [
    `${count('same')} the same`,
    `${count('near')} near enough`,
    `${count('fault')} at fault`,
    `${count('unanswered')} not checked`,
  ];
  const rest = wanted - checks.length;
  return `${parts.join(', ')}${rest > 0 ? `; the model is not at hand for ${rest} more` : ''}\n`;
}
