/**
 * Real training in a world. onnxruntime runs in the thread of the world, where the clock waits for it; elsewhere it has
 * a thread of its own. A worker's engine outlives its processes.
 */
import type { Clock } from 'nostrain/base';
import { shardSettings } from 'nostrain/certified/parts';
import type { EngineTrainer } from 'nostrain/node/parts';
import { type RunSpec, settingsOf } from 'nostrain/run';
import type { Trainer } from 'nostrain/worker';
import { prepareTask } from '../../src/node/data/task.ts';
import { openStored } from '../../src/node/data/token-file.ts';
import type { StartThread } from '../../src/trainer/engine.ts';
import { serveTrainer } from '../../src/trainer/serve.ts';
import { openOn } from '../../src/trainer/setup.ts';
import { createTrainerOn } from '../../src/trainer/trainer.ts';
import { keyOf } from '../support/swarm.ts';
import type { Document } from './features.ts';
import type { World } from './world.ts';

/** Engines by worker. */
export type Engines = readonly EngineTrainer[];

/** Reports whether workers of a world train for real: a linear model, whose rate of learning the usual spec has. */
function isTrained({ isReal, run, document }: World): boolean {
  const { training = {}, tiers, jury } = document;
  const isLinear = tiers === undefined && (training as Document).model === undefined;
  // jurors would need engines for the steps of others
  return isReal && run === 'certified' && isLinear && jury === undefined;
}

/** Opens the engines of a world; none if its training is simulated. */
export async function openEngines(world: World, spec: RunSpec): Promise<Engines> {
  if (!isTrained(world)) return [];
  const { nodeRuntime: ort } = await import('../../src/node/engine/sessions.ts');
  const start: StartThread = ({ onAnswer }) => {
    const serve = serveTrainer({ ort, openStored }, (answer) => onAnswer(structuredClone(answer)));
    return { post: (ask) => serve(structuredClone(ask)), terminate: async () => undefined };
  };
  const engines: EngineTrainer[] = [];
  for (let i = 0; i < world.workers; i++) {
    const settings = settingsOf(spec, { ...shardSettings(spec, keyOf(i), {}), relay: [] });
    const { signal } = new AbortController();
    const task = await prepareTask(settings, { signal, onNotice: () => undefined });
    const setup = { ...task, batch: settings.batchSize, device: 'cpu', threads: 1 } as const;
    const hints = { cpu: '', cuda: '', webgpu: '' };
    const open = (_: unknown, opening: Parameters<typeof openOn>[1]) =>
      openOn('cpu', opening, { start, hints });
    engines.push(await createTrainerOn({ threads: 1, openStored, open }, setup));
  }
  return engines;
}

/** Returns a trainer whose phases take their time on the clock of a machine, and are not kept between two parts. */
export const timedEngine = (
  engine: EngineTrainer,
  { clock, msOf, shard }: { clock: Clock; msOf(round: number): number; shard: string },
): Trainer => ({
  ...engine,
  origin: { shard, build: 'world' },
  async train({ keeping: _, remainingSteps: __, ...task }, onProgress, signal) {
    await clock.sleep(msOf(task.round), signal);
    return { ...(await engine.train(task, onProgress, signal)), seconds: 0 };
  },
});
