/**
 * A hostile worker of `nostrain demo certified`: it votes like the others, and sends the opposite of what it learned, ten times as large.
 * It runs in the demo's own process, because no command trains like that.
 */
import { join } from 'node:path';
import type { RunSpec, Trainer } from 'nostrain';
import { nativeCrypto, nativeSha256 } from 'nostrain/node';
import { placeIn } from '../../src/certified/make-spec.ts';
import { createRefreshPort, readStakeFile } from '../../src/cli/shared/stake-refresh.ts';
import { fixedData } from '../../src/node/engine/steps-again.ts';
import { certifiedProtocol, tablesOf } from '../../src/node/join/join-run.ts';
import { runWorkerSession } from '../../src/node/worker-session.ts';
import { settingsOf } from '../../src/run/spec/complete-spec.ts';
import { connectionOf } from '../../src/terminal/connection.ts';
import type { Hand } from '../shared/certified.ts';
import type { OnEvent, Running } from '../shared/swarm.ts';

/** What its delta is multiplied with. */
const FACTOR = -10;

interface FlipperRun {
  readonly spec: RunSpec;
  readonly hands: readonly Hand[];
  readonly folder: string;
  readonly relays: readonly string[];
  readonly corpus: string;
  readonly stakeFile: string;
  readonly workers: number;
}

/** Starts it; its events go to `take`. */
export function startSignFlipper(name: string, run: FlipperRun, take: OnEvent): Running {
  const abort = new AbortController();
  const exit = play(name, run, take, abort.signal).then(
    () => ({ name, code: 0, words: '', stopped: false }),
    (error: unknown) => {
      const stopped = abort.signal.aborted;
      return { name, code: stopped ? 0 : 1, words: String(error), stopped };
    },
  );
  return { exit, kill: () => abort.abort(new Error('stopped')) };
}

async function play(
  name: string,
  { spec, hands, folder, relays, corpus, stakeFile, workers }: FlipperRun,
  take: OnEvent,
  signal: AbortSignal,
): Promise<void> {
  const given = await readStakeFile(stakeFile);
  const { pubkey } = hands.find((hand) => hand.name === name)!;
  const settings = settingsOf(spec, {
    ...placeIn(spec, pubkey, {}),
    relay: relays,
    waitFor: workers,
    heartbeatInterval: 10,
    evaluate: false,
  });
  await runWorkerSession({
    settings,
    dir: folder,
    corpus,
    report: (event) => take(name, event),
    signal,
    keyFile: join(folder, 'key'),
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
    changeTrainer: flipped,
  });
}

/** A trainer that turns what it learns around. */
const flipped = (trainer: Trainer): Trainer => ({
  ...trainer,
  async train(task, onProgress, signal) {
    const trained = await trainer.train(task, onProgress, signal);
    const params = task.params.map((value, i) => value + FACTOR * (trained.params[i]! - value));
    return { ...trained, params };
  },
});
