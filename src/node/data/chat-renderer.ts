/** Renders conversations with a model's chat template, in a thread with limited memory and time. */
import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { ConfigError } from '../../base/errors.ts';
import type { ChatPiece, ChatTurn } from '../../model/data/documents.ts';
import type { ChatTokens } from '../../pretrained/chat.ts';
import { startThread } from '../start-thread.ts';

export interface ChatOrder {
  readonly template: string;
  readonly config: ChatTokens;
  readonly conversations: readonly (readonly ChatTurn[])[];
  /** Render prompts for the assistant's next turn, not texts to train on. */
  readonly asks?: boolean;
}

/** The training texts of each conversation, or the index of one that cannot be rendered and the reason. */
export type ChatAnswer =
  | { readonly lessons: readonly Lessons[] }
  | { readonly at: number; readonly reason: string };

export type Lessons = readonly (readonly ChatPiece[])[];

export interface ChatRenderer {
  /** Renders conversations. Throws a ConfigError (`corpus/template`) if that takes too long or too much memory. */
  render(conversations: ChatOrder['conversations']): Promise<ChatAnswer>;
  /** Returns the prompt for the assistant's next turn. Throws a ConfigError (`model/chat`) if the template fails. */
  ask(conversation: readonly ChatTurn[]): Promise<string>;
  close(): Promise<void>;
}

export interface ChatTemplate {
  readonly template: string;
  /** The contents of `tokenizer_config.json`, which names special tokens. */
  readonly config: ChatTokens;
}

/** Memory limit of the template thread. A template that needs more is rejected. */
const MOST_MEMORY_MB = 256;
/** Time limit for one batch of conversations. */
const MOST_SECONDS = 20;

export function createChatRenderer(
  { template, config }: ChatTemplate,
  mostSeconds = MOST_SECONDS,
): ChatRenderer {
  let thread: Worker | undefined;
  const order = (conversations: ChatOrder['conversations'], asks: boolean) => {
    thread ??= openThread();
    const answer = ask(thread, { template, config, conversations, asks }, mostSeconds);
    return answer.catch(async (error: unknown) => {
      await thread?.terminate();
      thread = undefined;
      throw error;
    });
  };
  return {
    render: (conversations) => order(conversations, false),
    ask: async (conversation) => {
      const answer = await order([conversation], true);
      if ('lessons' in answer) return answer.lessons[0]![0]![0]!.text;
      throw new ConfigError('model/chat', answer.reason, {
        hint: 'leave out --chat, or use another model',
      });
    },
    close: async () => {
      await thread?.terminate();
    },
  };
}

function openThread(): Worker {
  const thread = startThread('data/chat-thread', {
    maxOldGenerationSizeMb: MOST_MEMORY_MB,
    maxYoungGenerationSizeMb: MOST_MEMORY_MB / 4,
  });
  // an abandoned thread may still run out of memory; that must not end the program
  thread.on('error', () => undefined);
  return thread;
}

async function ask(thread: Worker, order: ChatOrder, seconds: number): Promise<ChatAnswer> {
  const late = AbortSignal.timeout(1000 * seconds);
  const answered = once(thread, 'message', { signal: late });
  thread.postMessage(order);
  const [answer] = await answered.catch((cause: Error & { readonly code?: string }) => {
    const isMemory = cause.code === 'ERR_WORKER_OUT_OF_MEMORY';
    const broken = isMemory ? `takes more than ${MOST_MEMORY_MB} MB` : `fails: ${cause.message}`;
    const reason = late.aborted ? `takes more than ${seconds} seconds` : broken;
    throw new ConfigError('corpus/template', `the model's chat template ${reason}`, {
      hint:
        'use the template that was published with the model; lines of prompt and completion ' +
        'need no template',
      cause,
    });
  });
  return answer;
}
