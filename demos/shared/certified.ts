/** Certified runs in demos: creates worker keys, publishes a spec, and replays the run from events on the relays. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { canonicalSpec, createSigner, type RunSpec, runIdOf, type Signer } from 'nostrain';
import {
  type Archive,
  archiveRun,
  formatArchive,
  makeSpec,
  type ReplayReport,
  replayRun,
} from 'nostrain/certified';
import { createSecretKey, nativeCrypto, nativeSha256 } from 'nostrain/node';
import type { Untyped } from '../../src/base/shape.ts';
import { createSlowReporter } from '../../src/base/slow.ts';
import { publishRun } from '../../src/certified/wire/runs.ts';
import { withRelays } from '../../src/cli/shared/with-relays.ts';
import { dataOfSpec, withPacked } from '../../src/node/data/spec-data.ts';
import { writeKeyFile } from '../../src/node/files/keys.ts';
import { startOfSettings } from '../../src/node/pretrained/imported-file.ts';
import { roundName, type WorkerId } from '../../src/run/ids.ts';
import type { PartialSettings } from '../../src/run/settings.ts';
import { connectionOf } from '../../src/terminal/connection.ts';
import type { Stage } from './stage.ts';

/** A worker of a demo with its key. */
export interface Hand {
  readonly name: string;
  readonly pubkey: WorkerId;
  readonly signer: Signer;
}

/** Creates a folder in `dir` and a key for a worker. */
export async function enlist(name: string, dir: string): Promise<Hand> {
  const folder = join(dir, name);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const secretKey = createSecretKey();
  await writeKeyFile(join(folder, 'key'), secretKey);
  const signer = createSigner(secretKey, nativeCrypto);
  return { name, pubkey: signer.publicKey, signer };
}

interface Certifying extends Pick<Stage, 'onNotice' | 'signal'> {
  readonly name: string;
  /** Folder that gets the spec as `run.json`. */
  readonly dir: string;
  readonly training: PartialSettings;
  /** Fields of the spec besides its name and founders. */
  readonly rules: Untyped;
  readonly corpus: string | undefined;
  /** Folder of sealed data that the workers train on. */
  readonly sealed?: string;
  readonly relays: readonly string[];
}

/** Spec fields with long timeouts, for workers that share a processor and may be slow. */
export const patientRules = {
  committee: { quorum: 'bft' },
  timing: { graceMinMs: 5000, graceMaxMs: 600_000, viewMs: 30_000, recoveryMs: 0 },
};

/** Settings of a model small enough for several workers on two cores, or in tabs. */
export const smallGpt = {
  model: 'char-gpt',
  width: 32,
  layers: 2,
  heads: 2,
  context: 32,
  ffn: 128,
  batchSize: 8,
} as const;

/** Creates the spec of a run with these founders, writes it to a file and publishes it. */
export async function certify(
  hands: readonly Hand[],
  { name, dir, training, rules, corpus, sealed, relays, onNotice, signal }: Certifying,
): Promise<{ readonly spec: RunSpec; readonly file: string }> {
  const { heartbeatInterval: _, ...shared } = training;
  const { signer, pubkey: me } = hands[0]!;
  const founders = hands.map(({ pubkey }) => pubkey).sort();
  const { spec: made } = await makeSpec({
    document: { name: `demo ${name}`, founders, ...rules },
    typed: {},
    training: shared,
    me,
    start: (of) => startOfSettings(of, { onNotice, signal }),
    ...(await dataOfSpec({ corpus }, { onNotice, signal })),
  });
  const spec = await withPacked(made, { sealed }, signal);
  const file = join(dir, 'run.json');
  await writeFile(file, canonicalSpec(spec));
  const connection = connectionOf({ timeout: 10 });
  await withRelays(relays, { connection, signer, signal }, (relaySession) =>
    publishRun(spec, undefined, { ...relaySession, sign: (draft) => signer.sign(draft) }),
  );
  return { spec, file };
}

/** Archives the run from the relays to `events.jsonl` in `dir`, and replays it. */
export async function replayKept(
  spec: RunSpec,
  urls: readonly string[],
  { dir, signal, onNotice }: Pick<Certifying, 'dir' | 'signal' | 'onNotice'>,
): Promise<{
  readonly archive: Archive;
  readonly eventsFile: string;
  readonly report: ReplayReport;
}> {
  const hashing = { sha256: nativeSha256, crypto: nativeCrypto };
  const connection = connectionOf({ timeout: 10 });
  const archive = await withRelays(urls, { connection, signal }, ({ relays }) =>
    archiveRun(runIdOf(spec), { relays, signal, ...hashing }),
  );
  const eventsFile = join(dir, 'events.jsonl');
  await writeFile(eventsFile, formatArchive(archive));
  const slowly = createSlowReporter(onNotice);
  const report = await replayRun(archive, {
    spec,
    ...hashing,
    onRound: ({ round }) => slowly(`replayed ${roundName(round)}`),
  });
  return { archive, eventsFile, report };
}
