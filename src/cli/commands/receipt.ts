/**
 * `nostrain receipt`: lists who contributed what to a certified run, signs it, or verifies a signed one.
 * `nostrain scores`: prints the certified scores and the weight vector that follows from them.
 */
import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { canonicalJson, type Json, parseJson } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { openingOf } from '../../certified/decisions/chain.ts';
import { pathOf } from '../../certified/decisions/replay.ts';
import { openHistory } from '../../certified/records/archive.ts';
import {
  type Receipt,
  type Receipted,
  type ReceiptRow,
  receiptOf,
  type Standing,
  standingsOf,
} from '../../certified/records/receipt.ts';
import type { RoundProof } from '../../consensus/roots.ts';
import { parseEvent, type SignedEvent, verifyEvent } from '../../network/event.ts';
import { toNpub } from '../../node/files/keys.ts';
import type { Digest } from '../../run/ids.ts';
import { runIdOf } from '../../run/spec/run-spec.ts';
import { commandWith, type FlagValues, text, toggle } from '../../terminal/flag-table.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../terminal/output.ts';
import { askingRule, openSource, sourceFlags, sourceOf } from '../shared/archive-source.ts';
import { readText } from '../shared/files.ts';
import { signedDocument, signingFlags } from '../shared/signed-document.ts';
import { workerKeyOf } from './explain.ts';

interface ReceiptDocument extends Receipt {
  /** Of the rounds that count the worker asked for. */
  readonly proofs?: readonly RoundProof[];
  /** Kind 30078 over the receipt, where it was signed. */
  readonly event?: SignedEvent;
}

const receiptFlags = {
  ...sourceFlags,
  events: text('<file>', 'read this instead of asking relays'),
  worker: text('<npub>', 'this key alone, with a proof of each round that counts it'),
  verify: text('<file>', 'say whether this signed receipt is what the events say'),
  output: { ...text('<file>', 'where the signed event goes; with --sign'), short: 'o' },
  ...signingFlags,
  json: toggle('print JSON'),
};

type ReceiptFlags = FlagValues<typeof receiptFlags>;

export const receipt = (): Command =>
  commandWith(
    'receipt',
    'list who contributed what to a run and what it was worth; sign it, or verify a signed one',
    receiptFlags,
  ).action(async (flags: ReceiptFlags, command: Command) => {
    refuseUnused(command, [
      askingRule(flags),
      { flags: ['output'], goesWith: '--sign', holds: flags.sign === true },
    ]);
    await interruptibly((signal) => tell(flags, signal));
  });

async function tell(flags: ReceiptFlags, signal: AbortSignal): Promise<void> {
  const source = await sourceOf(flags, signal);
  const made = await receiptOf(await openSource(flags, source), source.options);
  if (made === undefined) {
    throw new ConfigError('receipt/empty', 'nothing of this run is decided yet', {
      hint: '`nostrain replay` with the same flags says what is here',
    });
  }
  if (flags.verify !== undefined) return verify(await readText(flags.verify), made);
  const { complete, rounds } = made.receipt;
  if (!complete) writeNote(`the run is not over: this is what it owes after ${rounds} rounds`);
  const worker = flags.worker === undefined ? undefined : workerKeyOf(flags.worker);
  const event = await signedDocument(flags, `nostrain/receipt/${made.receipt.run}`, made.receipt);
  if (event && flags.output) await writeFile(flags.output, asJson(event));
  const rows = made.receipt.rows.filter((row) => worker === undefined || row.worker === worker);
  const document: ReceiptDocument = {
    ...made.receipt,
    rows,
    ...(worker && { proofs: rows.flatMap(({ counted }) => counted.map(made.prove)) }),
    ...(event && { event }),
  };
  writeOut(flags.json ? asJson(document) : words(document));
}

const words = ({ run, rounds, complete, runRoot, rows, event }: ReceiptDocument): string =>
  [
    `run      ${run}`,
    `rounds   ${rounds}${complete ? '' : ', not over'}`,
    `root     ${runRoot}`,
    ...rows.map(line),
    ...(event ? [`signed by ${toNpub(event.pubkey)}`] : []),
    '',
  ].join('\n');

const line = ({ worker, counted, late, voted, unseated, score, weight }: ReceiptRow): string => {
  const lost = unseated.length === 0 ? '' : `, no seat for its scores in ${unseated.length} rounds`;
  const worth = score === null ? '' : `, score ${score}, weight ${(100 * weight).toFixed(2)} %`;
  return (
    `${toNpub(worker)}  ${counted.length + late.length} counted, ${voted.length} ` +
    `voted${worth}${lost}`
  );
};

/** Says whether the signature holds, and whether the events say the same. */
function verify(text: string, { receipt: own }: Receipted): void {
  const json = parseJson(text);
  const event = json.ok ? parseEvent(json.value) : json;
  if (!event.ok || !verifyEvent(event.value).ok) {
    throw new ConfigError('receipt/file', 'this is no signed receipt, or its signature is wrong', {
      hint: 'give the file that `nostrain receipt --sign -o FILE` wrote',
    });
  }
  const isTrue = event.value.content === canonicalJson(own as unknown as Json);
  const who = toNpub(event.value.pubkey);
  writeOut(
    isTrue
      ? `true: signed by ${who}, and what the events of ${own.rounds} rounds say\n`
      : `NOT TRUE: signed by ${who}, but the events say something else\n`,
  );
  if (!isTrue) process.exitCode = exitCodes.failed.code;
}

interface ScoresDocument {
  readonly run: Digest;
  /** Rounds that are decided. */
  readonly rounds: number;
  /** The best first. */
  readonly scores: readonly Standing[];
  /** Kind 30078 over run, rounds and weights, where it was signed; a later one takes its place. */
  readonly event?: SignedEvent;
}

const scoresFlags = {
  ...sourceFlags,
  events: text('<file>', 'read this instead of asking relays'),
  ...signingFlags,
  json: toggle('print JSON'),
};

export const scores = (): Command =>
  commandWith(
    'scores',
    'print the certified scores of a run and the weight vector that follows from them',
    scoresFlags,
  ).action(async (flags: FlagValues<typeof scoresFlags>, command: Command) => {
    refuseUnused(command, [askingRule(flags)]);
    await interruptibly((signal) => tellScores(flags, signal));
  });

async function tellScores(
  flags: FlagValues<typeof scoresFlags>,
  signal: AbortSignal,
): Promise<void> {
  const source = await sourceOf(flags, signal);
  const { options } = source;
  const { spec, gathered } = await openHistory(await openSource(flags, source), options);
  if (!spec.scores) {
    throw new ConfigError('run/no-scores', 'members of this run do not score contributions', {
      hint: 'a run with scores is made by `nostrain run create --scores`',
    });
  }
  const { tip } = pathOf(openingOf(spec, options), gathered);
  const [run, rounds] = [runIdOf(spec), tip.chain.round];
  const best = [...standingsOf(tip.chain)].sort((a, b) => b.score - a.score);
  const weights = best.flatMap(({ worker, weight }) => (weight > 0 ? [[worker, weight]] : []));
  const event = await signedDocument(flags, `nostrain/weights/${run}`, { run, rounds, weights });
  const document: ScoresDocument = { run, rounds, scores: best, ...(event && { event }) };
  writeOut(flags.json ? asJson(document) : scoreWords(document));
}

const scoreWords = ({ run, rounds, scores: rows, event }: ScoresDocument): string =>
  [
    `run ${run} after ${rounds} rounds`,
    ...rows.map(scoreLine),
    ...(event ? [`signed by ${toNpub(event.pubkey)}`] : []),
    '',
  ].join('\n');

const scoreLine = ({ worker, score, weight, isLow }: Standing): string =>
  `${toNpub(worker)}  ${String(score).padStart(11)}  ${(100 * weight).toFixed(2).padStart(6)} ` +
  `%${isLow ? '  under the floor' : ''}`;
