/**
 * Conversations as the text a model was made for, by its Jinja template. A template is a stranger's program: the caller
 * bounds its time and memory in a thread that can be ended.
 */
import { Environment, Interpreter, Template } from '@huggingface/jinja';
import { ConfigError, safeLine } from '../base/errors.ts';
import type { ChatPiece, ChatTurn } from '../model/data/documents.ts';

export interface Chat {
  /** The conversation as text; with `prompt` it ends where the assistant's next turn begins. */
  render(messages: readonly ChatTurn[], options?: { readonly prompt?: boolean }): string;
  /** Texts to learn the assistant's turns from: one, or one a turn if the template writes earlier turns differently. */
  lessons(messages: readonly ChatTurn[]): readonly (readonly ChatPiece[])[];
}

/** Special tokens by the names that `tokenizer_config.json` gives them. */
export type ChatTokens = Readonly<Record<string, unknown>>;

/** Templates ask for the date; the same conversation is the same text on any day. */
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

/** Throws a ConfigError (`model/chat`) if the template cannot be read; rendering throws one if it refuses. */
export function createChat(template: string, config: ChatTokens): Chat {
  const parsed = attempt('cannot be read', () => new Template(template));
  const tokens = tokensOf(config);
  const render: Chat['render'] = (messages, { prompt = false } = {}) => {
    const names = { ...globals, ...tokens, messages, add_generation_prompt: prompt };
    const text = attempt('refuses the conversation', () => run(parsed, names));
    if (text.length <= MOST_TEXT) return text;
    throw wrong(`makes ${text.length} characters of a conversation`);
  };
  return {
    render,
    lessons: (messages) => {
      const turns = messages.flatMap(({ role }, i) => (role === 'assistant' ? [i] : []));
      const parts = turns.map((i) => ({
        before: i === 0 ? '' : render(messages.slice(0, i), { prompt: true }),
        through: render(messages.slice(0, i + 1)),
      }));
      if (parts.some(({ before, through }) => !through.startsWith(before))) {
        throw wrong("does not put an assistant's turn behind the text that asks for it");
      }
      if (parts.some(({ before, through }) => through.trimEnd() === before.trimEnd())) {
        throw wrong("writes nothing of an assistant's turn");
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

/** What every template may use; a range is bounded, since it is laid out in memory. */
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

/** All turns in one text; undefined where a later part does not go on as the one before it ended. */
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

/** `bos_token` and its like: a text, or an object with one. */
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
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw wrong(`${what}: ${safeLine(reason).slice(0, 300)}`, cause);
  }
}

const wrong = (what: string, cause?: unknown): ConfigError =>
  new ConfigError('model/chat', `the model's chat template ${what}`, {
    hint: 'use turns the model knows (system, user, assistant), or lines of prompt and completion',
    cause,
  });
