/** T-13, C-08: receipts and scores are computed from the events of a run, and a signed receipt is held against them. */

import { readFile, writeFile } from 'node:fs/promises';
import { isRoundOf, receiptOf } from 'nostrain/certified';
import { createSigner, parseEvent, type SignedEvent, verifyEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { toNpub } from 'nostrain/node/parts';
import { describe, expect, it } from 'vitest';
import { certifiedSpec, generateRun, type Round, signerOf } from '../support/certified-run.ts';
import { runCommand } from '../support/command-line.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const inFolder = temporaryFolder();
const keyOf = (number: number) => signerOf(number).publicKey;
const rounds: readonly Round[] = [
  {},
  { ignored: [2], absent: [4], joins: [12] },
  { late: [4], silent: [2] },
  { result: 'void', view: 4 },
  { silent: [3] },
];
const spec = certifiedSpec({ late: 'defer', training: { rounds: rounds.length } });
const run = generateRun(rounds, spec);

const fileOf = async (events: readonly object[], name = 'events.jsonl') => {
  const file = inFolder(name);
  await writeFile(file, events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  return file;
};

describe('a receipt', () => {
  it('T-13: lists for each key the rounds that count it, on time or late, and those it voted in', async () => {
    const { receipt } = (await receiptOf({ events: run.events, beacons: [] }, { spec }))!;
    const row = (number: number, rest: object) => ({
      ...{ worker: keyOf(number), counted: [0, 1, 2, 4], late: [], voted: [0, 1, 2, 3] },
      ...{ unseated: [], score: null, weight: 0, ...rest },
    });
    const rows = [
      row(1, {}),
      row(2, { counted: [0, 2, 4], voted: [0, 1, 3] }),
      row(3, {}),
      row(4, { counted: [0, 2, 4], late: [2] }),
      row(12, { counted: [2, 4], voted: [] }),
    ];
    expect(receipt).toEqual({
      ...{ run: run.run, complete: true, rounds: 5, runRoot: receipt.runRoot },
      rows: rows.sort((a, b) => (a.worker < b.worker ? -1 : 1)),
    });
    // the order of events and duplicates do not matter
    const again = [...run.events, ...run.events].reverse();
    expect((await receiptOf({ events: again, beacons: [] }, { spec }))!.receipt).toEqual(receipt);
  });

  it('T-13: proves that each round belongs to the run, and no other outcome', async () => {
    const { receipt, prove } = (await receiptOf({ events: run.events, beacons: [] }, { spec }))!;
    run.rounds.forEach(({ digest }, round) => {
      const proof = prove(round);
      expect(proof).toMatchObject({ round, digest });
      expect(isRoundOf(receipt.runRoot, proof)).toBe(true);
      expect(isRoundOf(receipt.runRoot, { ...proof, digest: 'a'.repeat(64) })).toBe(false);
      expect(isRoundOf(receipt.runRoot, { ...proof, round: (round + 1) % 5 })).toBe(false);
    });
  });

  it('T-13: is incomplete before the run is over, and undefined without events', async () => {
    const { events } = generateRun(rounds.slice(0, 4), spec);
    const { receipt } = (await receiptOf({ events, beacons: [] }, { spec }))!;
    expect(receipt).toMatchObject({ complete: false, rounds: 4 });
    expect(await receiptOf({ events: [], beacons: [] }, { spec })).toBeUndefined();
  });
});

describe('nostrain receipt', () => {
  it('T-13: --verify confirms a signed receipt from the events alone, and says NOT TRUE to any other', async () => {
    const events = await fileOf(run.events);
    const out = inFolder('receipt.json');
    const signing = ['--sign', '--sec-key', '07'.repeat(32)];
    const made = await runCommand('receipt', '--events', events, ...signing, '-o', out);
    expect(made.exitCode, made.stderr).toBe(0);
    expect(made.stdout).not.toContain('not over');
    const verify = (receipt: string, of = events) =>
      runCommand('receipt', '--events', of, '--verify', receipt);
    const signer = createSigner(new Uint8Array(32).fill(7), nativeCrypto);
    expect(await verify(out)).toMatchObject({
      exitCode: 0,
      stdout: `true: signed by ${toNpub(signer.publicKey)}, and the events of 5 rounds confirm it\n`,
    });
    // a receipt that claims one more round for a worker
    const { value } = parseEvent(JSON.parse(await readFile(out, 'utf8'))) as { value: SignedEvent };
    const content = value.content.replace('"counted":[0,2,4]', '"counted":[0,1,2,4]');
    expect(content).not.toBe(value.content);
    const forged = signer.sign({ ...value, content });
    const words = `NOT TRUE: signed by ${toNpub(signer.publicKey)}, but the events do not match it\n`;
    const other = inFolder('other.json');
    await writeFile(other, JSON.stringify(forged));
    expect(await verify(other)).toMatchObject({ exitCode: 1, stdout: words });
    // a genuine receipt, against the events of fewer rounds
    const fewer = await fileOf(generateRun(rounds.slice(0, 4), spec).events, 'fewer.jsonl');
    expect(await verify(out, fewer)).toMatchObject({ exitCode: 1, stdout: words });
    // the right content under a signature for another one
    await writeFile(other, JSON.stringify({ ...forged, content: value.content }));
    expect(await verify(other)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('its signature is invalid'),
    });
  });

  it('T-13: says before the end that the run is not over, and proves the rounds of one worker', async () => {
    const { events, rounds: played } = generateRun(rounds.slice(0, 3), spec);
    const asked = ['receipt', '--events', await fileOf(events), '--worker', toNpub(keyOf(2))];
    const { stderr, stdout } = await runCommand(...asked, '--json');
    expect(stderr).toContain('the run is not over: this is the receipt after 3 rounds');
    const { rows, proofs, runRoot, complete } = JSON.parse(stdout);
    expect(complete).toBe(false);
    expect(rows).toMatchObject([{ worker: keyOf(2), counted: [0, 2] }]);
    expect(proofs).toMatchObject([0, 2].map((round) => ({ round, digest: played[round]!.digest })));
    expect(proofs.every((proof: never) => isRoundOf(runRoot, proof))).toBe(true);
    expect((await runCommand(...asked)).stdout).toContain('2 counted, 2 voted');
  });
});

describe('nostrain scores', () => {
  const scored = certifiedSpec({ late: 'defer', scores: true });
  const made = generateRun(
    [{}, { scores: { 1: 40, 2: -7, 3: 10 } }, { scores: { 1: 20, 2: -10, 3: 11 } }, {}],
    scored,
  );
  // of rounds 0 and 1, since scores of a round are in the commits of the next one; worker 4 was received by no one
  const expected = [
    { worker: keyOf(1), score: 30, weight: 0.75, isLow: false },
    { worker: keyOf(3), score: 10, weight: 0.25, isLow: false },
    { worker: keyOf(4), score: 0, weight: 0, isLow: false },
    { worker: keyOf(2), score: -8, weight: 0, isLow: false },
  ];

  it('C-08: prints rolling scores, best first, and their shares, the same from any order of events', async () => {
    const file = await fileOf(made.events);
    const { exitCode, stdout, stderr } = await runCommand('scores', '--events', file, '--json');
    expect(exitCode, stderr).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ run: made.run, rounds: 4, scores: expected });
    const reversed = await fileOf([...made.events].reverse(), 'reversed.jsonl');
    const again = await runCommand('scores', '--events', reversed, '--json');
    expect(again.stdout).toBe(stdout);
    const lines = (await runCommand('scores', '--events', file)).stdout.split('\n');
    expect(lines).toEqual([
      `run ${made.run} after 4 rounds`,
      `${toNpub(keyOf(1))}           30   75.00 %`,
      `${toNpub(keyOf(3))}           10   25.00 %`,
      `${toNpub(keyOf(4))}            0    0.00 %`,
      `${toNpub(keyOf(2))}           -8    0.00 %`,
      '',
    ]);
    const { receipt } = (await receiptOf({ events: made.events, beacons: [] }, { spec: scored }))!;
    const inReceipt = receipt.rows.map(({ worker, score, weight }) => ({ worker, score, weight }));
    const byKey = [...expected].sort((a, b) => (a.worker < b.worker ? -1 : 1));
    expect(inReceipt).toEqual(byKey.map(({ isLow: _, ...row }) => row));
  });

  it('C-08: signs the weight vector as an event that the next one replaces', async () => {
    const file = await fileOf(made.events);
    const signing = ['--sign', '--sec-key', '07'.repeat(32), '--json'];
    const { event } = JSON.parse((await runCommand('scores', '--events', file, ...signing)).stdout);
    expect(parseEvent(event).ok && verifyEvent(event).ok).toBe(true);
    expect(event).toMatchObject({ kind: 30078, tags: [['d', `nostrain/weights/${made.run}`]] });
    expect(JSON.parse(event.content)).toEqual({
      ...{ run: made.run, rounds: 4 },
      weights: [
        [keyOf(1), 0.75],
        [keyOf(3), 0.25],
      ],
    });
  });

  it('marks a worker below the floor, and the receipt lists the rounds in which it had no seat', async () => {
    const scores = { 1: 20_000, 2: -400_000, 3: 20_000, 4: 20_000 };
    const { events } = generateRun([{}, ...Array<Round>(6).fill({ scores })], scored);
    const { stdout } = await runCommand('scores', '--events', await fileOf(events));
    const below = stdout.split('\n').filter((line) => line.endsWith('below the score floor'));
    expect(below).toEqual([expect.stringContaining(toNpub(keyOf(2)))]);
    const { receipt } = (await receiptOf({ events, beacons: [] }, { spec: scored }))!;
    const unseatedIn = receipt.rows.map(({ worker, unseated }) => [worker, unseated] as const);
    expect(new Map(unseatedIn).get(keyOf(2))).toEqual([5, 6]);
    expect(unseatedIn.filter(([, rounds]) => rounds.length > 0)).toHaveLength(1);
  });

  it('gives a newcomer no score for a round before it was in the roster', async () => {
    const scores = { 1: 40, 2: 40, 3: 40, 4: 40 };
    const later = { scores: { ...scores, 12: 30 } };
    const { events } = generateRun([{}, { scores, joins: [12] }, { scores }, later, {}], scored);
    const { receipt } = (await receiptOf({ events, beacons: [] }, { spec: scored }))!;
    expect(receipt.rows.find(({ worker }) => worker === keyOf(12))).toMatchObject({ score: 30 });
    expect(receipt.rows.find(({ worker }) => worker === keyOf(1))).toMatchObject({ score: 40 });
  });

  it('refuses a run without scores', async () => {
    const { exitCode, stderr } = await runCommand('scores', '--events', await fileOf(run.events));
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('run/no-scores')]);
  });
});
