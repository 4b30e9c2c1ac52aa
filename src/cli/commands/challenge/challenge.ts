/** `nostrain challenge`: runs the inner steps of listed contributions again and says which are what their authors say; verdicts are signed if asked. */
import { Command } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import {
  type Checkable,
  checkable,
  type ListedRow,
  listedRows,
} from '../../../certified/checks/checks.ts';
import { checkRow, type Finding } from '../../../certified/checks/rerun.ts';
import { openingOf } from '../../../certified/decisions/chain.ts';
import { hasModel } from '../../../certified/decisions/replay.ts';
import { openHistory } from '../../../certified/records/archive.ts';
import type { SignedEvent } from '../../../network/event.ts';
import { TrainersAgain } from '../../../node/engine/steps-again.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import type { Digest } from '../../../run/ids.ts';
import { roundName } from '../../../run/round-name.ts';
import { type RunSpec, runIdOf } from '../../../run/spec/run-spec.ts';
import { readKey } from '../../../run/spec/spec-fields.ts';
import { exitCodes } from '../../../terminal/exit-codes.ts';
import { roundOption, whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { refuseUnused } from '../../../terminal/unused-flags.ts';
import { addSourceFlags, openSource, sourceOf } from '../../shared/archive-source.ts';
import { addSigningFlags, signedDocument } from '../../shared/signed-document.ts';
import { withRelays } from '../../shared/with-relays.ts';
import { type ChallengeFlags, fetching, openBaseFor, placesOf } from './machine.ts';
import { type Check, formatCheck, formatTotal } from './words.ts';

/** The same with its verdict as an event (kind 30078), where it was signed. */
type SignedCheck = Check & { readonly event?: SignedEvent };

interface ChallengeDocument {
  readonly run: Digest;
  /** How far what comes out may lie from what was said, in millionths, where machines differ. */
  readonly bandPpm: number;
  readonly checks: readonly SignedCheck[];
}

/** The command. */
export const challenge = (): Command =>
  addSigningFlags(
    addSourceFlags(
      new Command('challenge').description(
        'run the inner steps of listed contributions again and say which are what their authors say',
      ),
    )
      .option(
        '--events <file>',
        'read this instead of asking relays; those of --rerun-relay are asked for private state all the same',
      )
      .addOption(roundOption('--round <n>', 'a round (default: every one)'))
      .option('--worker <npub>', 'a worker (default: everybody)')
      .option('--base <path>', 'published model that the run starts from')
      .option('--corpus <file>', 'text that the run trains on (default: the usual one)')
      .addOption(
        whole(
          '--threads <n>',
          'threads of the engine (default: as many as the worker had)',
          1,
          1024,
        ),
      ),
  )
    .option('--json', 'print JSON')
    .action(async (flags: ChallengeFlags, command: Command) => {
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
  const wanted = wantedOf(listedRows(start, gathered), flags);
  const document: ChallengeDocument = await withRelays(
    placesOf(spec, flags, source.reach.relays),
    source.reach,
    async (board) => {
      const trainers = new TrainersAgain(spec, {
        ...flags,
        openBase: base,
        signal,
        onNotice: writeNote,
      });
      const fetch = fetching(archive.events, start.params.layout.size, board);
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

      async function find({ row }: Checkable): Promise<Finding> {
        if (typeof row === 'string') return { result: 'unanswered', reason: row };
        const trainer = await trainers.like(row.manifest);
        return checkRow(row, { trainer, evidence: gathered, fetch, sha256: nativeSha256, signal });
      }
    },
  );
  writeOut(flags.json ? asJson(document) : formatTotal(document.checks, wanted.length));
  const isBad = document.checks.some(({ result }) => result === 'fault');
  if (isBad) process.exitCode = exitCodes.failed.code;
}

function checkOf(
  { listed, row }: Checkable,
  finding: Finding,
  ours: string,
  seconds: number,
): Check {
  const theirs = typeof row === 'string' ? '' : (row.manifest.features?.rerun?.build ?? '');
  return { ...listed, ...finding, theirs, ours: typeof row === 'string' ? '' : ours, seconds };
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
        ? 'members can still screen and score what they send: `nostrain run create --screening --scores`'
        : 'a run whose steps can be checked is made by `nostrain run create --rerun-permille N --rerun-relay URL`',
    },
  );
}

/** The row that was asked for, drawn or not; else all that were drawn. */
function wantedOf(
  rows: readonly ListedRow[],
  { round, worker }: ChallengeFlags,
): readonly ListedRow[] {
  const key = worker === undefined ? undefined : readKey(worker);
  if (worker !== undefined && key === undefined) {
    throw new ConfigError('flag/worker', `--worker ${worker} is not a public key`, {
      hint: 'give npub1… or 64 hex digits',
    });
  }
  const isNamed = round !== undefined && key !== undefined;
  const wanted = rows.filter(
    (row) =>
      (round === undefined || row.round === round) &&
      (key === undefined || row.worker === key) &&
      (isNamed || row.drawn),
  );
  if (wanted.length > 0) return wanted;
  const where = round === undefined ? 'this run' : roundName(round);
  throw new ConfigError('challenge/nothing', `${where} has no contribution that was asked for`, {
    hint: 'say --round N and --worker NPUB for one that was not drawn; `nostrain explain` lists who counted',
  });
}
