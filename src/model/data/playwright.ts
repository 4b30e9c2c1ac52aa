/**
 * Generates the built-in corpus: about 1.1 MB of synthetic dialogue from a seeded grammar in integer arithmetic, the
 * same bytes on every machine. It has speakers, scenes, agreement and verse lines to learn, but no meaning.
 */
import { utf8 } from '../../base/bytes.ts';
import { below, deriveKey, philox } from '../../base/rng.ts';
import {
  abstracts,
  adjectives,
  adverbs,
  cast,
  intransitives,
  irregular,
  patterns,
  places,
  type Rank,
  themes,
  transitives,
} from './playwright-words.ts';

/** Draws an integer in [0, bound). */
type Die = (bound: number) => number;

interface Player {
  readonly name: string;
  readonly rank: Rank;
}

interface Scene {
  readonly place: string;
  readonly nouns: readonly string[];
  readonly present: readonly Player[];
  readonly absent: readonly Player[];
}

const LINE_SYLLABLES = 11;
const PROSE_WIDTH = 64;
const players: readonly Player[] = (Object.keys(cast) as Rank[]).flatMap((rank) =>
  cast[rank].map((name) => ({ name, rank })),
);
const allNouns = themes.flat();

/** Writes whole scenes until `minimumBytes` are reached. */
export function writePlay({ seed = 1, minimumBytes = 1_100_000 } = {}): Uint8Array {
  const die = createDie(seed);
  const scenes: string[] = [];
  for (let length = 0; length < minimumBytes; ) {
    const scene = writeScene(die);
    scenes.push(scene);
    length += scene.length;
  }
  return utf8(scenes.join(''));
}

function createDie(seed: number): Die {
  const key = deriveKey('nostrain playwright', seed);
  let drawn = 0;
  let words: readonly number[] = [];
  return (bound) => {
    if (drawn % 4 === 0) words = philox(key, drawn / 4, 0, 0, 0);
    return below(words[drawn++ % 4]!, bound);
  };
}

const pick = <T>(die: Die, from: readonly T[]): T => from[die(from.length)]!;

/** Draws an item with a probability that falls linearly from the first to the last. */
const pickSkewed = <T>(die: Die, from: readonly T[]): T =>
  from[Math.min(die(from.length), die(from.length))]!;

function writeScene(die: Die): string {
  const order = [...players];
  for (let i = order.length - 1; i > 0; i--) {
    const j = die(i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  const size = 2 + die(4);
  const scene: Scene = {
    place: pick(die, places),
    nouns: pick(die, themes),
    present: order.slice(0, size),
    absent: order.slice(size, size + 6),
  };
  const speeches = 8 + die(20);
  let speaker = scene.present[0]!;
  let text = '';
  let isQuestion = false;
  for (let i = 0; i < speeches; i++) {
    const before = speaker;
    const others = scene.present.filter((player) => player !== before);
    speaker = i === 0 ? before : pick(die, others);
    const to = i === 0 ? others[0]! : before;
    const first =
      i === 0 ? 'entrance' : i === speeches - 1 ? 'parting' : isQuestion ? 'reply' : 'opening';
    const speech = writeSpeech(die, scene, to, first);
    isQuestion = speech.endsWith('?');
    text += `${speaker.name}:\n${speaker.rank === 'low' ? prose(speech) : verse(speech)}\n\n`;
  }
  return text;
}

function writeSpeech(die: Die, scene: Scene, to: Player, first: string): string {
  const parts = [expand(`{${first}}`, die, scene, to)];
  const more = die(1 + die(6));
  for (let i = 0; i < more; i++) parts.push(expand('{sentence}', die, scene, to));
  return parts.join(' ');
}

/** Replaces every symbol of a pattern, then fixes capitals and `a` or `an`. */
function expand(pattern: string, die: Die, scene: Scene, to: Player): string {
  let text = pattern;
  for (let at = text.indexOf('{'); at >= 0; at = text.indexOf('{', at)) {
    const end = text.indexOf('}', at);
    const value = symbol(text.slice(at + 1, end), die, scene, to);
    text = text.slice(0, at) + value + text.slice(end + 1);
  }
  return text
    .replace(/\b([Aa]) (?=[aeiou])/g, '$1n ')
    .replace(/(^|[.!?] )([a-z])/g, (_, before: string, letter: string) => before + upper(letter));
}

function symbol(name: string, die: Die, scene: Scene, to: Player): string {
  const alternatives = patterns[name];
  if (alternatives) return pickSkewed(die, alternatives);
  switch (name) {
    case 'noun':
      return die(3) < 2 ? pickSkewed(die, scene.nouns) : pick(die, allNouns);
    case 'plural':
      return plural(pickSkewed(die, scene.nouns));
    case 'abstract':
      return pickSkewed(die, abstracts);
    case 'adjective':
      return die(8) > 0
        ? pickSkewed(die, adjectives)
        : `${pick(die, allNouns)}-${participle(pick(die, transitives))}`;
    case 'adverb':
      return pick(die, adverbs);
    case 'transitive':
      return pickSkewed(die, transitives);
    case 'transitives':
      return plural(pickSkewed(die, transitives));
    case 'participle':
      return participle(pickSkewed(die, transitives));
    case 'intransitive':
      return pickSkewed(die, intransitives);
    case 'intransitives':
      return plural(pickSkewed(die, intransitives));
    case 'place':
      return die(2) === 0 ? scene.place : pickSkewed(die, places);
    case 'present':
      return titled(pick(die, scene.present));
    case 'absent':
      return titled(pickSkewed(die, scene.absent));
    case 'address':
      return address(die, to);
    default:
      throw new TypeError(`unknown symbol {${name}}`);
  }
}

function address(die: Die, { name, rank }: Player): string {
  if (die(3) === 0) return titled({ name, rank });
  if (rank === 'ruler') return pick(die, ['my liege', 'your grace', 'dread sovereign']);
  if (rank === 'lord') return pick(die, ['my lord', 'sir', 'cousin', 'noble friend']);
  if (rank === 'lady') return pick(die, ['my lady', 'madam', 'sweet cousin', 'gentle friend']);
  return pick(die, ['fellow', 'rogue', 'good fool', 'honest knave']);
}

const upper = (letter: string): string => letter.toUpperCase();

const titled = ({ name }: Player): string => name.slice(0, 1) + name.slice(1).toLowerCase();

/** Returns the -s form: the plural of a noun, the third person of a verb. */
function plural(word: string): string {
  if (/(?:s|x|ch|sh)$/.test(word)) return `${word}es`;
  return /[^aeiou]y$/.test(word) ? `${word.slice(0, -1)}ies` : `${word}s`;
}

function participle(verb: string): string {
  const known = irregular[verb];
  if (known !== undefined) return known;
  if (verb.endsWith('e')) return `${verb}d`;
  return verb.endsWith('y') ? `${verb.slice(0, -1)}ied` : `${verb}ed`;
}

/** Counts vowel groups, without a silent final e; rough, but deterministic. */
function syllables(word: string): number {
  const groups = word.toLowerCase().match(/[aeiouy]+/g)?.length ?? 0;
  return Math.max(1, /[^aeiouyl]e\W*$/i.test(word) ? groups - 1 : groups);
}

/** Breaks a speech into capitalized lines of about ten syllables. */
function verse(speech: string): string {
  const lines: string[] = [];
  let line = '';
  let count = 0;
  for (const word of speech.split(' ')) {
    const length = syllables(word);
    if (line !== '' && count + length > LINE_SYLLABLES) {
      lines.push(line);
      line = '';
      count = 0;
    }
    line = line === '' ? upper(word.slice(0, 1)) + word.slice(1) : `${line} ${word}`;
    count += length;
  }
  return [...lines, line].join('\n');
}

function prose(speech: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of speech.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > PROSE_WIDTH) {
      lines.push(line);
      line = '';
    }
    line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}
