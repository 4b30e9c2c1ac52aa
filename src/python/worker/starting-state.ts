/** What a session starts from when nothing was before it. */
import type { RegressionDataset } from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';
import { genesis } from '../../worker/state.ts';
import { arranged } from '../formats/arithmetic.ts';
import { readModel, writeModel } from '../regression/layout.ts';
import { evaluateRegression } from '../regression/train.ts';
import { flipped } from '../wire/sign.ts';
import { noHistory } from './history.ts';
import type { PythonState } from './session.ts';

export interface StartingOptions {
  readonly initialState: Params;
  readonly dataset: RegressionDataset;
  readonly startRound?: number | undefined;
  /** In the Python reference's sign, that of after - before; zeros when absent. */
  readonly momentumState?: Params | undefined;
  /** What errors call it. */
  readonly momentumName?: string;
}

/** The state before the first round, with its loss on the own data. Throws a ConfigError where the parts do not fit. */
export function startingState(options: StartingOptions): PythonState {
  const { dataset, startRound, momentumState, momentumName = 'momentumState' } = options;
  const params = asModel(options.initialState);
  const state = {
    ...genesis(params, evaluateRegression(params, dataset)),
    ...{ round: startRound ?? 0, history: noHistory },
  };
  if (momentumState === undefined) return state;
  const { values } = arranged(asModel(momentumState), params.layout, momentumName);
  return { ...state, momentum: flipped(values) };
}

/** f64, and laid out as the Python reference lays it out. */
const asModel = (params: Params): Params => writeModel(readModel(params));
