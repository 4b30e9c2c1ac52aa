/** `nostrain` without arguments at a terminal: asks what to do and returns the command for it. */
import { decodeJoinLine } from '../friends/line.ts';
import { isDisplayName, isLobbyName } from '../friends/lobby.ts';
import { askText, choose, isWithin } from '../terminal/ask.ts';
import { LEAST_PEOPLE, MOST_PEOPLE } from './commands/friends/flags.ts';

/** How questions are asked; tests answer them. */
export interface Asker {
  readonly choose: typeof choose;
  readonly askText: typeof askText;
}

/** Returns the arguments of the command that does what the person wants. */
export async function askCommand(asker: Asker = { choose, askText }): Promise<readonly string[]> {
  const wish = await asker.choose('What do you want to do?', [
    { value: 'watch', label: 'Watch a model learn here', hint: 'four workers, a few minutes' },
    { value: 'host', label: 'Train with friends', hint: 'you get a line that they join by' },
    { value: 'join', label: 'Join friends', hint: 'by the line that one of them sent' },
  ]);
  if (wish === 'watch') return ['demo', 'gpt'];
  return wish === 'host' ? askHost(asker) : askJoin(asker);
}

async function askHost(asker: Asker): Promise<readonly string[]> {
  const name = await asker.askText({
    message: 'What is the name of the run?',
    usual: 'winter',
    problem: (answer) =>
      isLobbyName(answer) ? undefined : 'Use 1 to 32 letters, digits, dots, dashes, underscores.',
  });
  const people = await asker.askText({
    message: 'How many people train, you included?',
    usual: '3',
    problem: (answer) =>
      isWithin(answer, LEAST_PEOPLE, MOST_PEOPLE)
        ? undefined
        : `Type a number from ${LEAST_PEOPLE} to ${MOST_PEOPLE}.`,
  });
  return ['host', name, '--people', people, ...(await askName(asker))];
}

async function askJoin(asker: Asker): Promise<readonly string[]> {
  const line = await asker.askText({
    message: 'Paste the line:',
    problem: (answer) => {
      const decoded = decodeJoinLine(answer);
      return decoded.ok ? undefined : `This is not a join line: ${decoded.issue.message}.`;
    },
  });
  return ['join', line, ...(await askName(asker))];
}

async function askName({ askText }: Asker): Promise<readonly string[]> {
  const name = await askText({
    message: 'What do the others call you? (Enter: by your key)',
    problem: (answer) =>
      answer === '' || isDisplayName(answer) ? undefined : 'Use at most 64 characters on one line.',
  });
  return name === '' ? [] : ['--name', name];
}
