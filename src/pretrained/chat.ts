/**
 * Renders conversations with the Jinja chat template of a model. A template is untrusted code: the caller must run it
 * in a thread that it can terminate, with limits on time and memory.
 */
import { Environment, Interpreter, Template } from '@huggingface/jinja';
import { ConfigError, safeLine, wordsOf } from '../base/errors.ts';
import type { ChatPiece, ChatTurn } from '../model/data/documents.ts';

export interface Chat {
  /** Renders a conversation as text; with `prompt` it ends where the assistant's next turn begins. */
  render(messages: readonly ChatTurn[], options?: { readonly prompt?: boolean }): string;
  /** Returns training texts for the assistant's turns: one, or one per turn if the template changes earlier turns. */
  trainingTexts(messages: readonly ChatTurn[]): readonly (readonly ChatPiece[])[];
}

/** Special tokens by their names in `tokenizer_config.json`. */
export type ChatTokens = Readonly<Record<string, unknown>>;

/** Fixed date for templates that ask for it, so that a conversation renders the same on any day. */
const TODAY: Readonly<Record<string, string>> = {
  '%Y': '2024',
  '%m': '07',
  '%d': '26',
  '%B': 'July',
  '%b': 'Jul',
  '%H': '00',
  '%M': '00',
  '%%': '%',
};
const MOST_TEXT = 2 ** 24;
const MOST_RANGE = 2 ** 16;

/**
 * Parses a template. Throws a ConfigError (`model/chat`) if it is invalid; rendering throws one if the template does.
 */
export function createChat(template: string, config: ChatTokens): Chat {
  const parsed = attempt('cannot be parsed', () => new Template(template));
  const tokens = tokensOf(config);
  const render: Chat['render'] = (messages, { prompt = false } = {}) => {
    const names = { ...globals, ...tokens, messages, add_generation_prompt: prompt };
    const text = attempt('rejects the conversation', () => run(parsed, names));
    if (text.length <= MOST_TEXT) return text;
    throw wrong(`renders a conversation as ${text.length} characters`);
  };
  return {
    render,
    trainingTexts: (messages) => {
      const turns = messages.flatMap(({ role }, i) => (role === 'assistant' ? [i] : []));
      const parts = turns.map((i) => ({
        before: i === 0 ? '' : render(messages.slice(0, i), { prompt: true }),
        through: render(messages.slice(0, i + 1)),
      }));
      if (parts.some(({ before, through }) => !through.startsWith(before))) {
        throw wrong("does not put an assistant's turn after its generation prompt");
      }
      if (parts.some(({ before, through }) => through.trimEnd() === before.trimEnd())) {
        throw wrong("renders no text for an assistant's turn");
      }
      const whole = joined(parts);
      return whole
        ? [whole]
        : parts.map(({ before, through }) => [
            { text: before, counted: false },
            { text: through.slice(before.length), counted: true },
          ]);
    },
  };
}

/** Globals of every template. The length of a range is limited, because it is built in memory. */
const globals: Readonly<Record<string, unknown>> = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  range: (first: number, last?: number, step = 1) => {
    const [from, to] = last === undefined ? [0, first] : [first, last];
    const length = Math.max(0, Math.ceil((to - from) / step));
    if (!(length <= MOST_RANGE)) throw new RangeError(`a range of ${length} numbers`);
    return Array.from({ length }, (_, i) => from + i * step);
  },
  raise_exception: (reason: unknown) => {
    throw new Error(String(reason));
  },
  strftime_now: (format: string) => format.replace(/%[YmdBbHM%]/g, (part) => TODAY[part] ?? part),
};

function run({ parsed }: Template, names: Readonly<Record<string, unknown>>): string {
  const environment = new Environment();
  for (const [name, value] of Object.entries(names)) environment.set(name, value);
  return String(new Interpreter(environment).run(parsed).value);
}

/** Joins all turns to one text; undefined if a later turn does not continue the text before it. */
function joined(
  parts: readonly { readonly before: string; readonly through: string }[],
): readonly ChatPiece[] | undefined {
  const pieces: ChatPiece[] = [];
  let done = '';
  for (const { before, through } of parts) {
    if (!before.startsWith(done)) return undefined;
    pieces.push({ text: before.slice(done.length), counted: false });
    pieces.push({ text: through.slice(before.length), counted: true });
    done = through;
  }
  return pieces;
}

/** Returns the special tokens such as `bos_token`; each is a text, or an object with one. */
function tokensOf(config: ChatTokens): Record<string, string> {
  return Object.fromEntries(
    Object.entries(config).flatMap(([name, token]) => {
      if (!name.endsWith('_token')) return [];
      const text = (token as { content?: unknown } | null)?.content ?? token;
      return typeof text === 'string' ? [[name, text]] : [];
    }),
  );
}

function attempt<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw wrong(`${what}: ${safeLine(wordsOf(cause)).slice(0, 300)}`, cause);
  }
}

const wrong = (what: string, cause?: unknown): ConfigError =>
  new ConfigError('model/chat', `the model's chat template ${what}`, {
    hint: 'use the roles of the model (system, user, assistant), or prompt and completion',
    cause,
  });
