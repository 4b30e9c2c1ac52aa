/**
 * `nostrain receipt`: lists who contributed what to a certified run, signs it, or verifies a signed one.
 * `nostrain scores`: prints the certified scores and the weight vector that follows from them.
 */

import { canonicalJson, type Json, parseJson } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { whileSlow } from '../../base/slow.ts';
import { openingOf } from '../../certified/decisions/chain.ts';
import { pathOf } from '../../certified/decisions/replay.ts';
import { type HistoryOptions, type Opened, openHistory } from '../../certified/records/archive.ts';
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
import type { NotesCorpus } from '../../social/notes.ts';
import { defineCommand } from '../../terminal/command.ts';
import { text, toggle } from '../../terminal/flag-table.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, exitCodes, writeNote, writeOut, writeOutput } from '../../terminal/output.ts';
import { askingRule, historySourceFlags, readHistory } from '../shared/archive-source.ts';
import { readText } from '../shared/files.ts';
import { readNotes } from '../shared/notes.ts';
import { signedDocument, signingFlags } from '../shared/signed-document.ts';
import { workerNamed } from '../shared/worker-flag.ts';

interface ReceiptDocument extends Receipt {
  /** Proofs for the rounds that count the requested worker. */
  readonly proofs?: readonly RoundProof[];
  /** The receipt as a signed event of kind 30078, if a key was given. */
  readonly event?: SignedEvent;
  /** Authors of the notes that the run trains on, from `--notes`. */
  readonly authors?: NotesCorpus['authors'];
}

export const receipt = defineCommand({
  name: 'receipt',
  help:
    'list the contributions and scores of each worker of a run; sign the list, or verify a ' +
    'signed one',
  flags: {
    ...historySourceFlags,
    worker: text('<npub>', 'only this key, with a proof of each round that counts it'),
    verify: text('<file>', 'check whether the events confirm this signed receipt'),
    notes: text('<file>', 'definition of the notes that the run trains on: lists their authors'),
    output: { ...text('<file>', 'with --sign: file to write the signed event to'), short: 'o' },
    ...signingFlags,
    json: toggle('print JSON'),
  },
  async run(flags, { command, signal }) {
    refuseUnused(command, [
      askingRule(flags),
      { flags: ['output'], goesWith: '--sign', holds: flags.sign === true },
    ]);
    const { archive, options } = await readHistory(flags, signal);
    const made = await whileSlow('replaying the run', writeNote, () => receiptOf(archive, options));
    if (made === undefined) {
      throw new ConfigError('receipt/empty', 'no round of this run is decided yet', {
        hint: '`nostrain replay` with the same flags shows which events are available',
      });
    }
    if (flags.verify !== undefined) return verify(await readText(flags.verify), made);
    const { complete, rounds } = made.receipt;
    if (!complete) writeNote(`the run is not over: this is the receipt after ${rounds} rounds`);
    const workers = made.receipt.rows.map((row) => row.worker);
    const worker = flags.worker === undefined ? undefined : workerNamed(flags.worker, workers);
    const event = await signedDocument(flags, `nostrain/receipt/${made.receipt.run}`, made.receipt);
    if (event && flags.output) await writeOutput(flags.output, asJson(event));
    const rows = made.receipt.rows.filter((row) => worker === undefined || row.worker === worker);
    const authors = flags.notes && (await authorsOf(archive, options, flags.notes));
    const document: ReceiptDocument = {
      ...made.receipt,
      ...(authors && { authors }),
      rows,
      ...(worker && { proofs: rows.flatMap(({ counted }) => counted.map(made.prove)) }),
      ...(event && { event }),
    };
    writeOut(flags.json ? asJson(document) : words(document));
  },
});

/** Returns the authors of the notes in a definition. Throws `corpus/file` if the run trains on another text. */
async function authorsOf(archive: Opened, options: HistoryOptions, file: string) {
  const { data } = (await openHistory(archive, options)).spec;
  return (await readNotes(file, data.kind === 'corpus' ? data.sha256 : '')).authors;
}

const words = ({ run, rounds, complete, runRoot, rows, event, authors }: ReceiptDocument): string =>
  [
    `run      ${run}`,
    `rounds   ${rounds}${complete ? '' : ', not over'}`,
    `root     ${runRoot}`,
    ...rows.map(line),
    ...(authors ?? []).map(({ key, notes }) => `${toNpub(key)}  author of ${notes} notes`),
    ...(event ? [`signed by ${toNpub(event.pubkey)}`] : []),
    '',
  ].join('\n');

const line = ({ worker, counted, late, voted, unseated, score, weight, group }: ReceiptRow) => {
  const lost = unseated.length === 0 ? '' : `, no seat for its scores in ${unseated.length} rounds`;
  const worth = score === null ? '' : `, score ${score}, weight ${(100 * weight).toFixed(2)} %`;
  return (
    `${toNpub(worker)}  ${counted.length + late.length} counted, ${voted.length} ` +
    `voted${worth}${lost}${group ? `, group ${group}` : ''}`
  );
};

function verify(text: string, { receipt: computed }: Receipted): void {
  const json = parseJson(text);
  const event = json.ok ? parseEvent(json.value) : json;
  if (!event.ok || !verifyEvent(event.value).ok) {
    throw new ConfigError(
      'receipt/file',
      'this is not a signed receipt, or its signature is invalid',
      {
        hint: 'give the file that `nostrain receipt --sign -o FILE` wrote',
      },
    );
  }
  const isTrue = event.value.content === canonicalJson(computed as unknown as Json);
  const who = toNpub(event.value.pubkey);
  writeOut(
    isTrue
      ? `true: signed by ${who}, and the events of ${computed.rounds} rounds confirm it\n`
      : `NOT TRUE: signed by ${who}, but the events do not match it\n`,
  );
  if (!isTrue) process.exitCode = exitCodes.failed.code;
}

interface ScoresDocument {
  readonly run: Digest;
  /** Number of decided rounds. */
  readonly rounds: number;
  /** Highest score first. */
  readonly scores: readonly Standing[];
  /** Run, rounds and weights as a signed event of kind 30078, if a key was given; a later one replaces it. */
  readonly event?: SignedEvent;
}

export const scores = defineCommand({
  name: 'scores',
  help: 'print the certified scores of a run and the weight vector that follows from them',
  flags: { ...historySourceFlags, ...signingFlags, json: toggle('print JSON') },
  async run(flags, { command, signal }) {
    refuseUnused(command, [askingRule(flags)]);
    const { archive, options } = await readHistory(flags, signal);
    const { spec, gathered } = await openHistory(archive, options);
    if (!spec.scores) {
      throw new ConfigError('run/no-scores', 'members of this run do not score contributions', {
        hint: 'create a run with scores: `nostrain run create --scores`',
      });
    }
    const { tip } = pathOf(openingOf(spec, options), gathered);
    const [run, rounds] = [runIdOf(spec), tip.chain.round];
    const best = [...standingsOf(tip.chain)].sort((a, b) => b.score - a.score);
    const weights = best.flatMap(({ worker, weight }) => (weight > 0 ? [[worker, weight]] : []));
    const event = await signedDocument(flags, `nostrain/weights/${run}`, { run, rounds, weights });
    const document: ScoresDocument = { run, rounds, scores: best, ...(event && { event }) };
    writeOut(flags.json ? asJson(document) : scoreWords(document));
  },
});

const scoreWords = ({ run, rounds, scores: rows, event }: ScoresDocument): string =>
  [
    `run ${run} after ${rounds} rounds`,
    ...rows.map(scoreLine),
    ...(event ? [`signed by ${toNpub(event.pubkey)}`] : []),
    '',
  ].join('\n');

const scoreLine = ({ worker, score, weight, isLow }: Standing): string =>
  `${toNpub(worker)}  ${String(score).padStart(11)}  ${(100 * weight).toFixed(2).padStart(6)} ` +
  `%${isLow ? '  below the score floor' : ''}`;
