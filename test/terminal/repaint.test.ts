import { expect, it } from 'vitest';
import { createRepainter } from '../../src/terminal/output.ts';

function recorded(isTTY: boolean) {
  let text = '';
  const write = (part: string | Uint8Array) => {
    text += String(part);
    return true;
  };
  return { repainter: createRepainter({ isTTY, columns: 20, write }), text: () => text };
}

it('repaints one line on a terminal and keeps the others', () => {
  const { repainter, text } = recorded(true);
  repainter.write('run winter');
  repainter.repaint('round 1: 0 of 3');
  repainter.repaint('round 1: 0 of 3');
  repainter.repaint('round 1: 2 of 3 contributions');
  repainter.write('round 1 final');
  repainter.repaint('round 2: 0 of 3');
  repainter.end();
  repainter.end();
  expect(text()).toBe(
    'run winter\n' +
      '\r\x1b[Kround 1: 0 of 3' +
      '\r\x1b[Kround 1: 2 of 3 co…' +
      '\r\x1b[Kround 1 final\n' +
      '\r\x1b[Kround 2: 0 of 3\n',
  );
});

it('writes lines elsewhere, each change once', () => {
  const { repainter, text } = recorded(false);
  repainter.repaint('round 1: 0 of 3');
  repainter.repaint('round 1: 0 of 3');
  repainter.write('round 1 final');
  repainter.end();
  expect(text()).toBe('round 1: 0 of 3\nround 1 final\n');
});
