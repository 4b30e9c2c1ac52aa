/** Regression datasets as files: tables as CSV, or the JSON form of the Python reference. */
import { readFile } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import {
  parseRegressionDataset,
  type RegressionDataset,
  type RegressionSet,
} from '../../model/data/regression.ts';
import { parseRegressionCsv } from '../../model/data/regression-csv.ts';
import { readJsonFile } from '../files/json-file.ts';

/** A dataset in the reference's JSON form. */
export const readDataset = async (file: string): Promise<RegressionDataset> =>
  parseRegressionDataset(
    await readJsonFile(file, {
      code: 'data/file',
      what: 'the dataset',
      hint: 'write it like {"task": "linear-regression", "examples": [{"inputs": [1, 2], "target": 3}]}',
    }),
  );

/** A `.json` file in that form, or any other as CSV, of which `target` is the column to predict. */
export async function readRows(file: string, target: string | undefined): Promise<RegressionSet> {
  if (!file.endsWith('.json')) return parseRegressionCsv(await textOf(file), target);
  if (target === undefined) return await readDataset(file);
  throw new ConfigError('flag/unused', '--target goes with a --dataset in CSV', {
    hint: 'leave it out: a JSON dataset says itself what is to be predicted',
  });
}

const textOf = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('data/file', `cannot read the dataset ${file}`, {
      hint: 'name a file that exists and that you may read',
      cause,
    });
  });
