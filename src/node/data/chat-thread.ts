/** Entry point of a thread that renders conversations with a chat template; its owner ends it if it takes too long. */
import { parentPort } from 'node:worker_threads';
import { type Chat, createChat } from '../../pretrained/chat.ts';
import type { ChatAnswer, ChatOrder } from './chat-renderer.ts';

let chat: Chat | undefined;

const port = parentPort;
port?.on('message', ({ template, config, conversations, asks }: ChatOrder) => {
  try {
    chat ??= createChat(template, config);
  } catch (error) {
    port.postMessage({ at: 0, reason: (error as Error).message } satisfies ChatAnswer);
    return;
  }
  const lessons = [];
  for (const [at, messages] of conversations.entries()) {
    try {
      const prompt = () => [[{ text: chat!.render(messages, { prompt: true }), counted: false }]];
      lessons.push(asks ? prompt() : chat.trainingTexts(messages));
    } catch (error) {
      port.postMessage({ at, reason: (error as Error).message } satisfies ChatAnswer);
      return;
    }
  }
  port.postMessage({ lessons } satisfies ChatAnswer);
});
