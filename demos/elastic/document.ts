/** What `nostrain demo elastic --json` says: what each tier of width learned and cost, beside workers that have no tiers to choose from. */

import type { FaultSettings } from '../../relay/faults/settings.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import { createRecorder, type DemoDocument, type DemoWorker } from '../shared/document.ts';

export interface ElasticWorker extends DemoWorker {
  /** 0 is the whole model, 1 half of the width, 2 a quarter. */
  readonly tier: number;
  /** Of its feed-forward layers. */
  readonly width: number;
  readonly parameters: number;
  /** Of the whole model's parameters. */
  readonly share: number;
  readonly secondsPerStep: number | null;
  /** The most memory that its process had. */
  readonly peakBytes: number | null;
}

/** The model of a tier, by the loss of the first worker that trains it. */
export interface TierLoss {
  readonly tier: number;
  /** On text that nobody trains on, after each round. */
  readonly validationLosses: readonly number[];
}

/** What a play with other workers came to. */
export interface Control {
  readonly workers: number;
  /** Of the whole model after the last round; null where the play did not end. */
  readonly validationLoss: number | null;
  readonly secondsPerStep: number | null;
  readonly peakBytes: number | null;
}

export interface ReplayFound {
  /** Every round recomputed, and the last model root is that of the workers. */
  readonly ok: boolean;
  readonly rounds: number;
  readonly modelRoot: string;
  readonly eventsFile: string;
}

export interface ElasticDocument extends Omit<DemoDocument, 'workers'> {
  readonly workers: readonly ElasticWorker[];
  readonly tiers: readonly TierLoss[];
  /** One worker of the whole model, with its part of the text and as many steps; null with --no-controls. */
  readonly alone: Control | null;
  /** As many workers as here, all of the whole model. */
  readonly whole: Control | null;
  /** The whole model's last loss over that of the worker alone. */
  readonly aboveAlone: number | null;
  /** What a replay of the tiers' run finds, from the events that the relay has; null without --certified. */
  readonly replay: ReplayFound | null;
  /** What was done to the network. */
  readonly faults: FaultSettings | null;
}

type Of<T extends RunEvent['type']> = Extract<RunEvent, { type: T }>;

export interface ElasticRecorder {
  take(name: string, event: RunEvent): void;
  document(
    end: Parameters<ReturnType<typeof createRecorder>['document']>[0],
  ): Omit<ElasticDocument, 'alone' | 'whole' | 'aboveAlone' | 'replay' | 'faults'>;
}

/** Collects what workers of these tiers say. */
export function createElasticRecorder(
  names: readonly string[],
  tiers: readonly number[],
  innerSteps: number,
): ElasticRecorder {
  const recorder = createRecorder(names);
  const hellos = new Map<string, Of<'hello'>>();
  const dones = new Map<string, Of<'done'>>();
  const rounds = new Map<string, Of<'round'>[]>(names.map((name) => [name, []]));
  const lossesOf = (tier: number): readonly number[] =>
    rounds
      .get(names[tiers.indexOf(tier)]!)!
      .map(({ validationLoss }) => validationLoss ?? Number.NaN);
  return {
    take(name, event) {
      recorder.take(name, event);
      if (event.type === 'hello') hellos.set(name, event);
      else if (event.type === 'done') dones.set(name, event);
      else if (event.type === 'round') rounds.get(name)!.push(event);
    },
    document(end) {
      const { workers, agreed, ...rest } = recorder.document(end);
      const parameters = Math.max(0, ...[...hellos.values()].map((hello) => hello.parameters));
      return {
        ...rest,
        parameters,
        rounds: rest.rounds.map((round, i) => ({
          ...round,
          validationLoss: lossesOf(Math.min(...tiers))[i] ?? null,
        })),
        agreed: agreed && agreeInRings([...rounds.values()]),
        workers: workers.map((worker, i) => {
          const [hello, done] = [hellos.get(worker.name), dones.get(worker.name)];
          return {
            ...worker,
            tier: tiers[i]!,
            width: hello?.tier?.width ?? 0,
            parameters: hello?.parameters ?? 0,
            share: hello?.tier?.share ?? 1,
            secondsPerStep: done ? done.secondsTraining / (done.rounds * innerSteps) : null,
            peakBytes: done?.peakBytes ?? null,
          };
        }),
        tiers: [...new Set(tiers)]
          .sort((a, b) => a - b)
          .map((tier) => ({ tier, validationLosses: lossesOf(tier) })),
      };
    },
  };
}

/** After every round, whoever has a ring has the same bits of it. */
function agreeInRings(said: readonly (readonly Of<'round'>[])[]): boolean {
  const seen = new Map<string, string>();
  return said.flat().every(({ index, outer = [] }) =>
    outer.every((digest, ring) => {
      const key = `${index}/${ring}`;
      const known = seen.get(key) ?? digest;
      seen.set(key, known);
      return known === digest;
    }),
  );
}

/** What a control came to, by the worker of the whole model that evaluates. */
export function controlOf({ workers, tiers }: Pick<ElasticDocument, 'workers' | 'tiers'>): Control {
  const [first] = workers;
  return {
    workers: workers.length,
    validationLoss: tiers[0]?.validationLosses.at(-1) ?? null,
    secondsPerStep: first?.secondsPerStep ?? null,
    peakBytes: first?.peakBytes ?? null,
  };
}
