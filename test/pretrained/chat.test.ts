import { describe, expect, test } from 'vitest';
import { createChat } from '../../src/pretrained/chat.ts';

/** As SmolLM2 and many others have it. */
const chatml = `{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`;
const turn = (role: string, content: string) => ({ role, content });
const talk = [
  turn('user', 'One?'),
  turn('assistant', '1'),
  turn('user', 'Two?'),
  turn('assistant', '2'),
];

describe('a template', () => {
  const chat = createChat(chatml, {});

  test('asks for a turn', () => {
    expect(chat.render(talk.slice(0, 1), { prompt: true })).toBe(
      '<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n',
    );
  });

  test("gives one text in which the assistant's turns count", () => {
    const lessons = chat.trainingTexts(talk);
    expect(lessons).toHaveLength(1);
    expect(lessons[0]!.map(({ text }) => text).join('')).toBe(chat.render(talk));
    expect(lessons[0]!.filter(({ counted }) => counted).map(({ text }) => text)).toEqual([
      '1<|im_end|>\n',
      '2<|im_end|>\n',
    ]);
  });

  test('that drops what was thought in earlier turns gives a text for each turn', () => {
    const thinking = `{% for m in messages %}[{{ m.role }}] {% if m.role == 'assistant' and loop.last %}(thinking) {% endif %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}`;
    const lessons = createChat(thinking, {}).trainingTexts(talk);
    expect(lessons.map((pieces) => pieces.map(({ text }) => text))).toEqual([
      ['[user] One?\n[assistant] ', '(thinking) 1\n'],
      ['[user] One?\n[assistant] 1\n[user] Two?\n[assistant] ', '(thinking) 2\n'],
    ]);
  });

  test('knows special tokens, and one day only', () => {
    const dated = `{{ bos_token }}{{ eos_token }}{{ strftime_now('%d %b %Y') }}{{ messages[0].content }}`;
    const config = { bos_token: '<s>', eos_token: { content: '</s>' }, model_max_length: 5 };
    expect(createChat(dated, config).render(talk)).toBe('<s></s>26 Jul 2024One?');
  });
});

test.each([
  ['{% for %}', 'cannot be parsed'],
  [`{{ raise_exception('no such role') }}`, 'rejects the conversation: no such role'],
  [`{{ messages | length }}{{ add_generation_prompt }}`, 'does not put'],
  ['{% for i in range(1000000000) %}{% endfor %}', 'a range of 1000000000 numbers'],
  [`{% for i in range(5, -5, -2) %}{{ i }}{% endfor %}`, 'renders no text'],
  [`{% for i in range(60000) %}${'x'.repeat(1000)}{% endfor %}`, 'renders a conversation as 6'],
])('template %# is named as the cause', (template, reason) => {
  expect(() => createChat(template, {}).trainingTexts(talk)).toThrow(reason);
});
