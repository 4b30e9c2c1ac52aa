/**
 * A hostile worker of `nostrain demo certified`: it plays and votes as the others do, and sends the opposite of what it learned, ten times as
 * large. It runs in the demo's own process, since no command trains so.
 */
import { join } from 'node:path';
import { placeIn } from '../../src/certified/make-spec.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import { certifiedProtocol } from '../../src/cli/commands/run/join.ts';
import { createRefreshPort, readStakeFile, tablesOf } from '../../src/cli/shared/stake-refresh.ts';
import { fixedData } from '../../src/node/engine/steps-again.ts';
import { nativeCrypto } from '../../src/node/native/event-crypto.ts';
import { nativeSha256 } from '../../src/node/native/sha256.ts';
import { runWorkerSession } from '../../src/node/worker-session.ts';
import type { WorkerId } from '../../src/run/ids.ts';
import { settingsOf } from '../../src/run/spec/complete-spec.ts';
import type { RunSpec } from '../../src/run/spec/run-spec.ts';
import { connectionOf } from '../../src/terminal/connection.ts';
import type { Trainer } from '../../src/worker/ports.ts';
import type { Running } from '../shared/swarm.ts';

/** How much of the way it learned it goes, and where to. */
const FACTOR = -10;

/** What it needs to play. */
export interface FlipperStage {
  readonly spec: RunSpec;
  readonly pubkey: WorkerId;
  readonly dir: string;
  readonly relays: readonly string[];
  readonly corpus: string;
  readonly stakeFile: string;
  readonly waitFor: number;
}

/** Starts it; what it reports goes to `take`. */
export function startSignFlipper(
  name: string,
  stage: FlipperStage,
  take: (name: string, event: RunEvent) => void,
): Running {
  const abort = new AbortController();
  const exit = play(stage, (event) => take(name, event), abort.signal).then(
    () => ({ name, code: 0, words: '' }),
    (error: unknown) => ({ name, code: abort.signal.aborted ? 0 : 1, words: String(error) }),
  );
  return { exit, kill: () => abort.abort(new Error('stopped')) };
}

async function play(
  { spec, pubkey, dir, relays, corpus, stakeFile, waitFor }: FlipperStage,
  report: (event: RunEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  const given = await readStakeFile(stakeFile);
  const settings = settingsOf(spec, {
    ...placeIn(spec, pubkey, {}),
    relay: relays,
    waitFor,
    heartbeatInterval: 10,
    evaluate: false,
  });
  await runWorkerSession({
    settings,
    dir,
    corpus,
    report,
    signal,
    keyFile: join(dir, 'key'),
    fixed: fixedData(spec, undefined),
    protocol: certifiedProtocol({
      spec,
      sha256: nativeSha256,
      crypto: nativeCrypto,
      tables: tablesOf(given),
      stakes: createRefreshPort(spec, { given }, relays, signal),
    }),
    connection: connectionOf({ timeout: 10 }),
    device: 'cpu',
    threads: 1,
    changeTrainer: turned,
  });
}

/** The same trainer for somebody who turns what it learns. */
const turned = (trainer: Trainer): Trainer => ({
  ...trainer,
  async train(task, onProgress, signal) {
    const trained = await trainer.train(task, onProgress, signal);
    const params = task.params.map((value, i) => value + FACTOR * (trained.params[i]! - value));
    return { ...trained, params };
  },
});
