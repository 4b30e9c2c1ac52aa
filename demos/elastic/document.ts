/** The JSON document of `nostrain demo elastic`: losses and costs of each tier, and of workers without tiers. */
import type { FaultSettings } from '../../relay/faults/settings.ts';
import {
  type DemoDocument,
  type DemoWorker,
  documentOf,
  type EventLog,
  type RoundEvent,
} from '../shared/document.ts';

interface ElasticWorker extends DemoWorker {
  /** 0 is the full model, 1 half of the width, 2 a quarter. */
  readonly tier: number;
  /** Width of its feed-forward layers. */
  readonly width: number;
  readonly parameters: number;
  /** Share of the full model's parameters. */
  readonly share: number;
  readonly secondsPerStep: number | null;
  /** Peak memory of its process. */
  readonly peakBytes: number | null;
}

/** Result of a control run, to compare with. */
interface Control {
  readonly workers: number;
  /** Validation loss of the full model after the last round; null if the run did not finish. */
  readonly validationLoss: number | null;
  readonly secondsPerStep: number | null;
  readonly peakBytes: number | null;
}

interface ElasticRun extends Omit<DemoDocument, 'workers'> {
  readonly workers: readonly ElasticWorker[];
  /** Validation loss after each round, measured by the first worker of the tier. */
  readonly tiers: readonly {
    readonly tier: number;
    readonly validationLosses: readonly number[];
  }[];
}

export interface ElasticDocument extends ElasticRun {
  /** One worker of the full model, with its part of the text and as many steps; null with --no-controls. */
  readonly alone: Control | null;
  /** The same number of workers, all training the full model. */
  readonly whole: Control | null;
  /** Final loss of the full model divided by that of the single worker. */
  readonly aboveAlone: number | null;
  /** Result of recomputing the run from the events on the relay; null without --certified. */
  readonly replay: {
    /** Every round was recomputed, and the last model root equals that of the workers. */
    readonly ok: boolean;
    readonly rounds: number;
    readonly modelRoot: string;
    readonly eventsFile: string;
  } | null;
  /** The faults of the relay. */
  readonly faults: FaultSettings | null;
}

/** Returns the document of one run, in which worker i trains tier `tiers[i]`. */
export function elasticRunOf(
  log: EventLog,
  tiers: readonly number[],
  innerSteps: number,
  end: Parameters<typeof documentOf>[1],
): ElasticRun {
  const { workers, agreed, ...rest } = documentOf(log, end);
  const rounds = log.inOrder();
  const lossesOf = (tier: number): readonly number[] => {
    const first = end.names[tiers.indexOf(tier)]!;
    return rounds.flatMap(([, reported]) => {
      const round = reported.get(first);
      return round ? [round.validationLoss ?? Number.NaN] : [];
    });
  };
  const largest = lossesOf(Math.min(...tiers));
  return {
    ...rest,
    parameters: Math.max(0, ...[...log.hellos.values()].map((hello) => hello.parameters)),
    rounds: rest.rounds.map((round, i) => ({ ...round, validationLoss: largest[i] ?? null })),
    agreed: agreed && agreeInSlices(rounds.flatMap(([, reported]) => [...reported.values()])),
    workers: workers.map((worker, i) => {
      const hello = log.hellos.get(worker.name);
      const done = log.dones.get(worker.name);
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
}

/** Reports whether all workers with a slice have the same bits of it after a round. */
function agreeInSlices(reported: readonly RoundEvent[]): boolean {
  const seen = new Map<string, string>();
  return reported.every(({ index, outer = [] }) =>
    outer.every((digest, slice) => {
      const key = `${index}/${slice}`;
      const known = seen.get(key) ?? digest;
      seen.set(key, known);
      return known === digest;
    }),
  );
}

/** Returns the result of a control run, from the worker that evaluates the full model. */
export function controlOf({ workers, tiers }: ElasticRun): Control {
  const [first] = workers;
  return {
    workers: workers.length,
    validationLoss: tiers[0]?.validationLosses.at(-1) ?? null,
    secondsPerStep: first?.secondsPerStep ?? null,
    peakBytes: first?.peakBytes ?? null,
  };
}
