/** `nostrain demo NAME`: says which demo takes which flags, and loads it from `demos/`. */

import { demoFlags } from '../../../demos/shared/flags.ts';
import type { DemoFlags } from '../../../demos/shared/stage.ts';
import { defineCommand } from '../../terminal/command.ts';
import { refuseUnused } from '../../terminal/options.ts';

interface Demo {
  /** Flags in addition to those that every demo takes. */
  readonly takes: readonly string[];
  run(flags: DemoFlags): Promise<number>;
}

/** A demo in which workers train one model over a relay. */
const training = (
  name: 'gpt' | 'linear' | 'finetune' | 'series' | 'images' | 'onnx',
  takes: readonly string[],
): Demo => ({
  takes: ['dir', 'rounds', 'innerSteps', 'workers', 'relay', 'settings', ...takes],
  run: async (flags) => (await import('../../../demos/train/run.ts')).runTrainingDemo(name, flags),
});

const demos: Readonly<Record<string, Demo>> = {
  gpt: training('gpt', ['corpus', 'profile', 'long']),
  linear: training('linear', ['profile', 'long', 'reference']),
  finetune: training('finetune', ['corpus', 'base', 'certified']),
  series: training('series', ['corpus', 'certified']),
  images: training('images', ['corpus', 'certified']),
  onnx: training('onnx', ['certified']),
  notes: {
    takes: ['dir', 'rounds', 'innerSteps', 'workers', 'settings', 'base', 'certified'],
    run: async (flags) => (await import('../../../demos/notes/run.ts')).runNotesDemo(flags),
  },
  certified: {
    takes: ['dir', 'corpus'],
    run: async (flags) => (await import('../../../demos/certified/run.ts')).runCertifiedDemo(flags),
  },
  browser: {
    takes: ['dir', 'rounds', 'innerSteps', 'corpus', 'base'],
    run: async (flags) => (await import('../../../demos/browser/run.ts')).runBrowserDemo(flags),
  },
  byzantine: {
    takes: [
      'rounds',
      'innerSteps',
      'corpus',
      'attack',
      'hostile',
      'rule',
      'table',
      'skewed',
      'seeds',
      'keep',
      'picture',
    ],
    run: async (flags) => (await import('../../../demos/byzantine/run.ts')).runAttackLab(flags),
  },
  sealed: {
    takes: ['dir', 'rounds', 'innerSteps'],
    run: async (flags) => (await import('../../../demos/sealed/run.ts')).runSealedDemo(flags),
  },
  experts: {
    takes: ['dir', 'innerSteps', 'corpus'],
    run: async (flags) => (await import('../../../demos/experts/run.ts')).runExpertsDemo(flags),
  },
  elastic: {
    takes: [
      'dir',
      'rounds',
      'innerSteps',
      'settings',
      'corpus',
      'certified',
      'tiers',
      'controls',
      'latency',
      'loss',
      'bandwidth',
    ],
    run: async (flags) => (await import('../../../demos/elastic/run.ts')).runElasticDemo(flags),
  },
};

/** Returns the rules that refuse a flag which this demo does not take, naming the demos that do. */
const flagRules = (name: string) =>
  [...new Set(Object.values(demos).flatMap(({ takes }) => takes))].map((flag) => {
    const takers = Object.keys(demos).filter((each) => demos[each]!.takes.includes(flag));
    const goesWith = `demo ${takers.join(', ')}`;
    return { flags: [flag], goesWith, holds: takers.includes(name) };
  });

export const demo = defineCommand({
  name: 'demo',
  help: 'train one model with four worker processes over a local relay',
  args: [['[name]', 'what to train', 'gpt']],
  flags: demoFlags,
  finish({ registeredArguments: [name] }) {
    name!.choices(Object.keys(demos));
  },
  async run(flags, { args: [name], command }) {
    refuseUnused(command, [
      ...flagRules(name),
      { flags: ['seed'], goesWith: 'demos without --reference', holds: flags.reference !== true },
    ]);
    process.exitCode = await demos[name]!.run(flags);
  },
});
