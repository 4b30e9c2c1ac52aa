/** What is known of the frontier: how each run of `npm run bench:compression` ended, one a line. */
import { readFileSync } from 'node:fs';

export const FRONTIER = 'docs/assets/frontier.ndjson';

export interface FrontierRow {
  /** Settings as JSON, over those of the char-gpt's preset. */
  readonly label: string;
  /** On all windows of the validation slice. */
  readonly loss: number;
  /** The largest payload of any worker in the last round. */
  readonly bytes: number;
}

export const readFrontier = (): readonly FrontierRow[] =>
  readFileSync(FRONTIER, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as FrontierRow);
