/** Rows of so many numbers, and one number to predict for each. */
import type { RowForm } from '../architectures/architecture.ts';
import { ANY } from '../graph/value.ts';
import { gather } from '../graph/verbs.ts';
import { type Data, type FormRules, refuseMasked, unfit } from './form.ts';

interface Rows {
  /** Row after row. */
  readonly inputs: Float32Array;
  readonly targets: Float32Array;
}

/** A worker's rows, and those it evaluates on. */
export interface RowData extends Rows {
  readonly kind: 'regression';
  readonly features: number;
  readonly validation?: Rows;
}

export const rows = ({ features }: RowForm): FormRules<RowData> => ({
  data: 'regression',
  says: `rows of ${features} features`,
  tokensPerRow: 1,
  inputs: () => ['inputs', 'targets'],
  open: (graph, reading) => {
    refuseMasked(reading);
    const { dtype } = reading;
    const inputs = graph.input('inputs', { dtype, shape: [ANY, features] });
    const targets = graph.input('targets', { dtype, shape: [ANY] });
    return (at) => ({ inputs: gather(inputs, at), targets: gather(targets, at) });
  },
  single: (dtype) => ({ dtype, shape: [1, features] }),
  hold: (data) => {
    if (data.features !== features) throw unfit(`the model trains on rows of ${features} features`);
    const { validation } = data;
    check(data, features, '');
    if (validation) check(validation, features, 'validation ');
    return {
      feeds: {
        shard: feedsOf(data, features),
        ...(validation && { validation: feedsOf(validation, features) }),
      },
      masked: false,
      bound: (on) => (on === 'shard' ? data : validation)?.targets.length ?? 0,
      stride: 1,
      place: (_, at) => at,
      spread: (_, at) => at,
    };
  },
  anything: () => {
    const inputs = Float32Array.from({ length: 16 * features }, (_, i) => Math.sin(i));
    return { kind: 'regression', features, inputs, targets: new Float32Array(16).fill(1) };
  },
});

function feedsOf({ inputs, targets }: Rows, features: number): Data {
  const shape = [targets.length, features];
  const wanted = { elements: targets, shape: [targets.length] };
  const feeds = { inputs: { elements: inputs, shape }, targets: wanted };
  return { kind: 'feeds', feeds, window: 1 };
}

function check({ inputs, targets }: Rows, features: number, of: string): void {
  if (targets.length === 0) throw unfit(`the ${of}data has no rows`, 'give at least one row');
  const needed = targets.length * features;
  if (inputs.length === needed) return;
  throw unfit(
    `${of}inputs has ${inputs.length} numbers; ${targets.length} targets of ${features} features need ${needed}.`,
  );
}
