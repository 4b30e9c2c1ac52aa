/** Questions to a person at a terminal. They appear on stderr, so that stdout stays for results. */
import type { TextOptions } from '@clack/prompts';
import { Interrupted } from './interrupt.ts';
import { noteStream } from './output.ts';

/** Reports whether a person can answer: nothing is asked in scripts and pipes. */
export const canAsk = (): boolean => process.stdin.isTTY === true && process.stderr.isTTY === true;

/** An answer to choose from. */
export interface Answer<T> {
  readonly value: T;
  readonly label: string;
  readonly hint?: string;
}

/** Asks for one of several answers. Throws Interrupted after Ctrl-C or Escape. */
export async function choose<T extends string>(
  message: string,
  choices: readonly Answer<T>[],
  signal?: AbortSignal,
): Promise<T> {
  const { isCancel, select } = await import('@clack/prompts');
  const options = choices.map((choice) => ({ ...choice }) as never);
  const answer = await select<T>({ message, options, output: noteStream, ...of(signal) });
  if (isCancel(answer)) throw new Interrupted();
  return answer;
}

export interface TextQuestion {
  readonly message: string;
  /** The answer of a person who only presses Enter. */
  readonly usual?: string;
  /** Returns what is wrong with an answer; undefined if nothing is. */
  readonly problem?: (answer: string) => string | undefined;
}

/** Asks for a line of text, without space at its ends. Throws Interrupted after Ctrl-C or Escape. */
export async function askText(question: TextQuestion, signal?: AbortSignal): Promise<string> {
  const { message, usual = '', problem } = question;
  const { isCancel, text } = await import('@clack/prompts');
  const options: TextOptions = {
    message,
    output: noteStream,
    validate: (typed) => problem?.(typed?.trim() || usual),
    ...(usual !== '' && { placeholder: usual, defaultValue: usual }),
    ...of(signal),
  };
  const answer = await text(options);
  if (isCancel(answer)) throw new Interrupted();
  return answer.trim();
}

/** Reports whether an answer is a whole number from `least` to `most`. */
export const isWithin = (answer: string, least: number, most: number): boolean =>
  /^\d{1,9}$/.test(answer) && Number(answer) >= least && Number(answer) <= most;

const of = (signal: AbortSignal | undefined) => (signal === undefined ? {} : { signal });
