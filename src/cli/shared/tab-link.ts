/** The link that opens a run in a tab that trains, for commands that make a run or serve its page. */
import { problemInTab } from '../../browser/base.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { text } from '../../terminal/flag-table.ts';

/** Flag of commands that print such links. */
export const tabFlag = text('<url>', 'address of a tab that trains, to link to');

/** Returns the link of a run at the address of a tab. */
export const tabLink = (tab: string, naddr: string): string => `${tab}#${naddr}`;

/**
 * Returns lines with the link to fine-tune in a tab, or with the command that serves the tab if no address is known;
 * none if the run starts from no published model, or trains what a tab cannot.
 */
export function tabLines(
  spec: Pick<RunSpec, 'start' | 'tiers'>,
  naddr: string,
  tab: string | undefined,
): readonly string[] {
  if (spec.start === null || problemInTab(spec) !== undefined) return [];
  const way = tab === undefined ? `nostrain page ${naddr} --tab` : tabLink(tab, naddr);
  return ['or in a browser tab, which says what it downloads and has one button:', `  ${way}`];
}
