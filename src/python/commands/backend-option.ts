/** What computes the steps of a regression, by the names of the Python reference and our own. */
import { Option } from 'commander';
import { regressionBackends } from '../node/train-on-backend.ts';

/** `--backend`, for every command that trains a regression. */
export const backendOption = (): Option =>
  new Option(
    '--backend <name>',
    "what computes: python is the reference's order of operations, to the bit; numpy, torch and onnx are onnxruntime",
  )
    .choices(regressionBackends)
    .default('python');
