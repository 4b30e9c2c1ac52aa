/** `nostrain demo sealed`: a confidential run on encrypted data, with a refused machine and an eavesdropper. */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { writeEvidence } from '../../src/attest/evidence.ts';
import { simulateEvidence } from '../../src/attest/vendors.ts';
import { concatBytes } from '../../src/base/bytes.ts';
import { openCorpus } from '../../src/node/data/corpus.ts';
import {
  openShards,
  sealedFilesIn,
  sealedInSpec,
  sealParts,
} from '../../src/node/data/sealed-data.ts';
import { loadSealKeys } from '../../src/node/files/keys.ts';
import type { SealedManifest } from '../../src/sealed/manifest.ts';
import { splitLines } from '../../src/sealed/shard.ts';
import { exitCodes } from '../../src/terminal/output.ts';
import { certify, enlist, type Hand, patientRules, smallGpt } from '../shared/certified.ts';
import { documentOf } from '../shared/document.ts';
import { runLogged } from '../shared/play.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import { joinLine, startWorker } from '../shared/swarm.ts';

const TRAINING = ['alice', 'bob'];
const REFUSED = 'mallory';
const NAMES = [...TRAINING, REFUSED];
const ROUNDS = { usual: 4, quick: 2 };
const STEPS = 10;
/** Bytes of text that are sealed: a few seconds of training. */
const TEXT_BYTES = 120_000;
const CODE_BYTES = 48;
const USER_DATA_BYTES = 64;

interface Refused {
  readonly worker: string;
  readonly reason: string;
}

export interface SealedDocument {
  /** Every accepted worker finished every round with the same digest. */
  readonly agreed: boolean;
  /** Workers whose machines the run does not accept, with the field. */
  readonly refused: readonly Refused[];
  /** A stranger with every event, chunk and envelope. */
  readonly eavesdropper: {
    /** Parts of the data that it could decrypt. */
    readonly shardsOpened: number;
  };
  readonly wallSeconds: number;
}

/** Runs the demo. Returns exit code 0 if two workers agree, one is refused, and the eavesdropper opens nothing. */
export const runSealedDemo = (flags: DemoFlags): Promise<number> =>
  onStage(flags, { name: 'sealed', workers: NAMES }, async (stage) => {
    const { dir, scope, say } = stage;
    // sealing keys lie in the data folder: those of the demo go to its own
    process.env.NOSTRAIN_HOME = join(dir, 'home');
    await mkdir(process.env.NOSTRAIN_HOME, { mode: 0o700 });
    const relay = await createRelay();
    scope.defer(() => relay.close());
    const hands: Hand[] = [];
    for (const name of [...NAMES, 'eve']) hands.push(await enlist(name, dir));
    const [alice, bob, mallory, eve] = hands as [Hand, Hand, Hand, Hand];
    const folder = join(dir, 'sealed');
    const manifest = await seal([alice, bob, mallory], folder, stage);
    const rounds = flags.rounds ?? (flags.quick ? ROUNDS.quick : ROUNDS.usual);
    const settings = { ...smallGpt, rounds, innerSteps: flags.innerSteps ?? STEPS };
    const machines = { vendors: ['simulated'] };
    const rules = { ...patientRules, data: { kind: 'own' }, tier: 'confidential', machines };
    const { file } = await certify([alice, bob], {
      name: 'sealed',
      dir,
      training: settings,
      relays: [relay.url],
      corpus: undefined,
      rules: { ...rules, sealed: sealedInSpec(manifest), admission: { kind: 'open' } },
      sealed: folder,
      onNotice: stage.onNotice,
      signal: stage.signal,
    });
    const filesFrom = ['manifest', ...NAMES.map((_, i) => `shard-${i}`)].map((each) =>
      join(folder, each),
    );
    const lineOf = (name: string, machine: string) => {
      const line = { folder: join(dir, name), workers: TRAINING.length, relays: [relay.url] };
      const more = { filesFrom, machine, allowSimulated: true };
      return joinLine(file, { ...line, corpus: undefined, evaluates: name === 'alice' }, more);
    };
    const refused = await refusedWorker(lineOf(REFUSED, await copiedEvidence(dir)), stage);
    const processes = TRAINING.map((name) => ({ name, args: lineOf(name, 'simulated') }));
    const { log, exits } = await runLogged(processes, stage.report, stage.signal);
    const corpus = { name: 'sealed text', sha256: manifest.shards[0]!.digest, bytes: TEXT_BYTES };
    const wallSeconds = stage.wallSeconds();
    const played = documentOf(log, { names: TRAINING, rounds, corpus, wallSeconds });
    const shardsOpened = await openedBy(eve, manifest, folder);
    const { agreed } = played;
    const eavesdropper = { shardsOpened };
    const document: SealedDocument = { agreed, refused, eavesdropper, wallSeconds };
    if (stage.end(document, exits) || !agreed) return stage.endWithoutAgreement(exits);
    say(`${TRAINING.join(' and ')} agree after ${rounds} rounds on data opened in memory only`);
    for (const { worker, reason } of refused) say(`${worker} was refused: ${reason}`);
    say(
      `an eavesdropper with every event and chunk opened ${shardsOpened} of ${NAMES.length} parts`,
    );
    say('the machines were SIMULATED: they prove nothing');
    const isAsMeant = refused.length === 1 && shardsOpened === 0;
    return isAsMeant ? exitCodes.done.code : exitCodes.failed.code;
  });

/** Seals the same number of lines to each worker. */
async function seal(hands: readonly Hand[], out: string, stage: Stage): Promise<SealedManifest> {
  const { read } = await openCorpus({ cacheDir: stage.dir, allowDownload: false, ...stage });
  const pieces: Uint8Array[] = [];
  for await (const piece of read()) pieces.push(piece);
  const text = concatBytes(...pieces);
  const parts = splitLines(text.subarray(0, TEXT_BYTES), hands.length, false);
  const recipients = await Promise.all(
    hands.map(async ({ pubkey: worker }) => {
      const { publicKey: sealKey } = await loadSealKeys(worker);
      return { worker, sealKey };
    }),
  );
  return sealParts(parts, { form: 'text', recipients, out });
}

/** Writes a program that prints evidence which another machine made, and returns its path. */
async function copiedEvidence(dir: string): Promise<string> {
  const other = simulateEvidence(
    new Uint8Array(CODE_BYTES),
    new Uint8Array(USER_DATA_BYTES).fill(7),
  );
  const program = join(dir, 'copied-evidence.sh');
  await writeFile(program, `#!/bin/sh\necho '${writeEvidence(other)}'\n`);
  await chmod(program, 0o700);
  return program;
}

/** Lets the worker join, and returns why it was refused; empty if it was not. */
async function refusedWorker(args: readonly string[], stage: Stage): Promise<readonly Refused[]> {
  const { exit, kill } = startWorker({ name: REFUSED, args }, stage.report);
  const stop = () => kill('SIGINT');
  stage.signal.addEventListener('abort', stop, { once: true });
  const { words } = await exit;
  const reason = /\(run\/machine\): (.+)/.exec(words)?.[1];
  return reason === undefined ? [] : [{ worker: REFUSED, reason }];
}

/** Counts the parts that a stranger opens, with its own key and every envelope, as if each were its own. */
async function openedBy(eve: Hand, manifest: SealedManifest, folder: string): Promise<number> {
  const read = await sealedFilesIn(folder);
  let opened = 0;
  for (const { shard } of manifest.shards) {
    const envelopes = manifest.envelopes.map((each) => ({ ...each, shard, worker: eve.pubkey }));
    for (const envelope of envelopes) {
      const only = { ...manifest, envelopes: [envelope] };
      await openShards(only, eve.pubkey, read).then(
        () => opened++,
        () => undefined,
      );
    }
  }
  return opened;
}
