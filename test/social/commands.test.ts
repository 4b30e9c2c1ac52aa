/** The commands that make a run a thing on Nostr, as a user types them: handler, zap weights, authors of notes. */
import { writeFile } from 'node:fs/promises';
import { toHex } from 'nostrain/base';
import { formatArchive } from 'nostrain/certified';
import { verifyEvent } from 'nostrain/network';
import { toNpub } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { addressOfRun } from '../../src/social/announce.ts';
import { defineNotes, writeNotes } from '../../src/social/notes.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';
import { runCommand } from '../support/command-line.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const inFolder = temporaryFolder();
const NOW = Math.floor(Date.now() / 1000);
const keyOf = (number: number) => ['--sec-key', toHex(new Uint8Array(32).fill(number))];
const keep = async (name: string, text: string) => {
  await writeFile(inFolder(name), text);
  return inFolder(name);
};

it('N-64: `handler publish` signs profile and handler, and refuses a key with the profile of a person', async () => {
  const relay = await createRelay();
  const flags = ['--page', 'https://page.example.org/', '--relay', relay.url];
  const publish = (number: number, ...more: readonly string[]) =>
    runCommand('handler', 'publish', ...flags, ...more, ...keyOf(number));
  const tab = ['--tab', 'https://page.example.org/tab.html', '--site', 'nostrain'];
  for (let i = 0; i < 2; i++) {
    // the second time its own profile is there
    const { exitCode, stdout, stderr } = await publish(21, ...tab, '--json');
    expect(exitCode, stderr).toBe(0);
    const events = JSON.parse(stdout);
    expect(events.map(({ kind }: { kind: number }) => kind)).toEqual([0, 31_990]);
    for (const event of events) expect(verifyEvent(event).ok).toBe(true);
    expect(events[1].tags).toContainEqual([
      ...['web', 'https://page.example.org/tab.html#<bech32>', 'naddr'],
    ]);
  }
  const person = signerOf(5).sign({ kind: 0, created_at: NOW, tags: [], content: '{"name":"E"}' });
  await publishRaw(relay.url, [person]);
  expect((await publish(5)).stderr).toContain('this key has a profile of its own');
  const framed = await runCommand('handler', 'publish', '--relay', relay.url, '--page', 'x#y');
  expect(framed.stderr).toContain('is not the web address of a page');
  await relay.close();
});

it('N-63: `replay --note` says whether the zap weights of a note follow from the run', async () => {
  const { spec, run, events } = generateRun([{}, {}, {}, {}, {}, {}, {}, {}]);
  const archive = await keep('run.jsonl', formatArchive({ events, beacons: [] }));
  const noteOf = (weight: number, about = addressOfRun(spec.author, run)) => {
    const zaps = [1, 2].map((number) => ['zap', signerOf(number).publicKey, '', `${weight}`]);
    const tags = [['a', about], ...zaps];
    return JSON.stringify(signerOf(9).sign({ kind: 1, created_at: NOW, tags, content: '' }));
  };
  const check = async (note: string) =>
    runCommand('replay', '--events', archive, '--note', await keep('note.json', note));
  const right = await check(noteOf(8));
  expect(right.exitCode, right.stderr).toBe(0);
  expect(right.stdout).toContain('zap weights: right');
  expect(right.stdout).toContain(`leaves out ${toNpub(signerOf(3).publicKey)}`);
  const wrong = await check(noteOf(800));
  expect(wrong.exitCode).toBe(1);
  expect(wrong.stdout).toContain('zap weights: WRONG');
  expect(wrong.stdout).toContain('has weight 800, not 8');
  const other = await check(noteOf(8, addressOfRun(spec.author, 'ab'.repeat(32))));
  expect(other.stderr).toContain('is not a signed note about this run');
  const altered = await check(noteOf(8).replace('"content":""', '"content":"x"'));
  expect(altered.stderr).toContain('is not a signed note about this run');
});

it('N-67: `receipt --notes` lists the authors, and refuses the definition of another text', async () => {
  const notes = [7, 8, 8].map((number, i) =>
    signerOf(number).sign({ kind: 1, created_at: NOW + i, tags: [], content: `note ${i}` }),
  );
  const { corpus, text } = defineNotes(notes, [1]);
  const data = { kind: 'corpus', sha256: corpus.text, bytes: text.length, shards: 4 };
  const training = { model: 'gpt', layers: 1, width: 8, heads: 1, context: 8, rounds: 2 };
  const limits = { payloadBytes: 100_000 };
  const spec = certifiedSpec({ data, training, limits });
  const { events } = generateRun([{}, {}], spec);
  const archive = await keep('notes.jsonl', formatArchive({ events, beacons: [] }));
  const list = async (definition: string) =>
    runCommand('receipt', '--events', archive, '--notes', await keep('notes.json', definition));
  const { exitCode, stdout, stderr } = await list(writeNotes(corpus));
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toContain(toNpub(signerOf(7).publicKey));
  expect(stdout).toContain(toNpub(signerOf(8).publicKey));
  const other = await list(writeNotes(defineNotes(notes.slice(1), [1]).corpus));
  expect(other.stderr).toContain('it does not define the corpus of this run');
});
