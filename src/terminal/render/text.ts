/** Text laid out for terminals: colors, cutting and wrapping. */

export interface Paint {
  bold(text: string): string;
  dim(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
  cyan(text: string): string;
}

const ESCAPE = '\u001b';

/** SGR sequences, or the bare text where colors are not wanted. */
export function createPaint(color: boolean): Paint {
  const style = (code: number) => (text: string) =>
    color && text !== '' ? `${ESCAPE}[${code}m${text}${ESCAPE}[0m` : text;
  return {
    bold: style(1),
    dim: style(2),
    green: style(32),
    yellow: style(33),
    red: style(31),
    cyan: style(36),
  };
}

/** Cuts plain text to `width` characters, ending in `…` where something was lost. */
export function clip(text: string, width: number): string {
  const characters = [...text];
  if (characters.length <= width) return text;
  return width <= 0 ? '' : `${characters.slice(0, width - 1).join('')}…`;
}

/** Lines of at most `width` characters, broken at spaces where there are any. */
export function wrap(text: string, width: number): readonly string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    let rest = [...paragraph];
    while (rest.length > width) {
      const space = rest.lastIndexOf(' ', width);
      const cut = space > 0 ? space : width;
      lines.push(rest.slice(0, cut).join(''));
      rest = rest.slice(space > 0 ? cut + 1 : cut);
    }
    return [...lines, rest.join('')];
  });
}
