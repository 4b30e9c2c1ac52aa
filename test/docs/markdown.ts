/** Tables of generated pages: no padding, so that one longer cell changes one line. */

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** A Markdown table. */
export function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const line = (row: readonly string[]) => `| ${row.map(cell).join(' | ')} |`;
  return [line(head), `|${head.map(() => ' --- ').join('|')}|`, ...body.map(line)].join('\n');
}

export const code = (text: string): string => `\`${text}\``;
