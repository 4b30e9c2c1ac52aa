/** A regression dataset in the reference's JSON form. */
import { parseRegressionDataset, type RegressionDataset } from '../model/data/regression.ts';
import { readJsonFile } from './json-file.ts';

export const readDataset = async (file: string): Promise<RegressionDataset> =>
  parseRegressionDataset(
    await readJsonFile(file, {
      code: 'data/file',
      what: 'the dataset',
      hint: 'write it like {"task": "linear-regression", "examples": [{"inputs": [1, 2], "target": 3}]}',
    }),
  );
