/** `--branch`: which way to go where a run has forked. */
import { Option } from 'commander';
import { isHex32 } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import type { Digest } from '../run/ids.ts';

/** An outcome by its digest. */
export const branchOption = (): Option =>
  new Option(
    '--branch <digest>',
    'where the run has forked: an outcome of the branch to be on',
  ).argParser(toOutcome);

function toOutcome(text: string): Digest {
  if (isHex32(text)) return text;
  throw new ConfigError('flag/branch', `--branch ${text} is no outcome`, {
    hint: 'give the 64 hex digits that a worker or `nostrain replay` named at the fork',
  });
}
