/** Every error that a person can cause says what to do next: a hint, or in its message what the value must be. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const ROOMS = ['src/cli', 'src/terminal', 'src/node', 'src/run'];

const sources = ROOMS.flatMap((room) =>
  readdirSync(join(root, room), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(room, file)),
);

/** The text of every `new …Error(…)` of a file, with its brackets closed. */
function errorsIn(file: string): readonly string[] {
  const text = readFileSync(join(root, file), 'utf8');
  return [...text.matchAll(/new (?:Config|Relay|Training|Checkpoint|Chain|Nostrain)Error\(/g)].map(
    ({ index }) => {
      let depth = 0;
      let end = text.indexOf('(', index);
      do {
        if (text[end] === '(') depth++;
        if (text[end] === ')') depth--;
        end++;
      } while (depth > 0);
      return text.slice(index, end);
    },
  );
}

/** They pass on what the engine said, or stand below a list that says what to do for each line. */
const PASSED_ON = /'training\/failed'|'doctor\/broken'/;

/** Says in the message itself what to do; or passes on what another error says. */
const SAYS = /hint|must be|details|error\.|cause\.message|needs? (?:the )?--|give|leave/;

it('has a next step in every message', () => {
  const bare = sources.flatMap((file) =>
    errorsIn(file)
      .filter((error) => !SAYS.test(error) && !PASSED_ON.test(error))
      .map((error) => `${file}: ${error.replace(/\s+/g, ' ')}`),
  );
  expect(bare).toEqual([]);
});
