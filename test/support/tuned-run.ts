/** Writes the folder that a worker leaves after fine-tuning a published model, without training. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gptSpec, initialParameters, modelLayout, tokenizers } from 'nostrain/model';
import { openRunFolder } from 'nostrain/node';
import {
  completeSettings,
  type PartialSettings,
  presets,
  type Settings,
  writeSettings,
} from 'nostrain/run';
import type { Params } from 'nostrain/tensor';
import { genesis, noMembers } from 'nostrain/worker';
import { agreeOnBase } from '../../src/node/files/stored-settings.ts';
import { type BaseModel, openBase } from '../../src/node/pretrained/base-model.ts';

export interface TunedRun {
  readonly dir: string;
  readonly base: BaseModel;
  readonly params: Float32Array;
}

/** Writes the run. Trained values differ from the base by up to `most`, so that the run generates different text. */
export async function writeTunedRun(
  dir: string,
  base: string,
  asked: PartialSettings = {},
  most = 0.25,
): Promise<TunedRun> {
  const unused = { run: 'tuned', relay: [], model: 'pretrained' } as const;
  const settings = completeSettings(presets.pretrained, unused, { base, context: 32 }, asked);
  const options = { onNotice: () => undefined, signal: new AbortController().signal };
  const opened = await openBase(settings, options);
  const params = await opened.first(settings.seed);
  for (let i = 0; i < params.length; i++) params[i]! += most * (((i * 7919) % 101) / 50 - 1);
  await save(dir, settings, { layout: modelLayout(opened.model), values: params });
  await agreeOnBase(dir, opened);
  return { dir, base: opened, params };
}

/** Writes the folder of a run that trained a text model from scratch; returns the folder. */
export async function writeOwnRun(dir: string, asked: PartialSettings): Promise<string> {
  const unused = { run: 'own', relay: [], model: 'char-gpt' } as const;
  const settings = completeSettings(presets['char-gpt'], unused, asked);
  const model = gptSpec(settings, tokenizers[settings.tokens].vocabulary);
  const values = initialParameters(model, 3).map((value) => 20 * value);
  await save(dir, settings, { layout: modelLayout(model), values });
  return dir;
}

async function save(dir: string, settings: Settings, params: Params): Promise<void> {
  await mkdir(dir, { recursive: true });
  const folder = await openRunFolder(dir, noMembers);
  await folder.store.save(genesis(params, 5));
  await folder.close();
  await writeFile(join(dir, 'settings.json'), JSON.stringify(writeSettings(settings)));
}
