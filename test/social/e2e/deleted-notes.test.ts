/** An author deletes a note of the corpus of a run: the workers hear of it on the run's relay, and a replay agrees. */
import { join } from 'node:path';
import { toHex } from 'nostrain/base';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { runProgram, startProgram, temporaryFolder } from '../../support/processes.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { signerOf } from '../../support/signers.ts';

const NOW = Math.floor(Date.now() / 1000);
const FOUNDER = ['--sec-key', toHex(new Uint8Array(32).fill(1))];
const SIZES = ['--set', 'layers=1', '--set', 'width=32', '--context', '16', '--batch-size', '2'];

it('N-68: a deletion on the relay of a run is in the ledger two outcomes later, and a replay agrees', {
  timeout: 120_000,
}, async () => {
  const [relay, cwd] = [await createRelay(), temporaryFolder()];
  const author = signerOf(7);
  const post = (content: string, at: number, kind = 1, tags: string[][] = []) =>
    author.sign({ kind, created_at: NOW - 1000 + at, content, tags });
  const notes = Array.from({ length: 40 }, (_, i) => post(`note ${i} `.repeat(20), i));
  await publishRaw(relay.url, notes);
  const asked = ['--authors', author.publicKey, '--kinds', '1', '--relay', relay.url];
  const defined = await runProgram(['corpus', 'nostr', ...asked], cwd, cwd);
  expect(defined.code, defined.stderr).toBe(0);
  const root = /root +([0-9a-f]{64})/.exec(defined.stdout)![1]!;
  const corpus = join(cwd, 'notes.jsonl');
  const made = await runProgram([
    ...['run', 'create', '--model', 'char-gpt', '--corpus', corpus, '--set', `notes=${root}`],
    ...['--relay', relay.url, '--json', '-o', join(cwd, 'run.json'), ...SIZES, '--rounds', '4'],
    ...['--inner-steps', '2', ...FOUNDER],
  ]);
  expect(made.code, made.stderr).toBe(0);
  const { naddr } = JSON.parse(made.stdout);
  await publishRaw(relay.url, [post('', 900, 5, [['e', notes[3]!.id]])]);
  const founder = startProgram([
    ...['run', 'join', naddr, '--allow-private-relays', '--report', 'ndjson', ...FOUNDER],
    ...['--corpus', corpus, '--dir', join(cwd, 'founder'), '--threads', '1', '--device', 'cpu'],
  ]);
  expect(await founder.exit, founder.output.stderr).toBe(0);
  const counts = founder.events.flatMap((event) =>
    event.type === 'round' ? [event.certified!.deletedNotes] : [],
  );
  expect(counts.at(-1)).toBe(1);
  expect(counts[0]).toBe(0);
  const replayed = await runProgram(['replay', '--run', naddr, '--allow-private-relays', '--json']);
  expect(JSON.parse(replayed.stdout)).toMatchObject({ ok: true, rounds: 4 });
  await relay.close();
});
