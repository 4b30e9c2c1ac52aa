/**
 * Generates a ship's log, a synthetic text for fine-tuning, from a grammar and a seed: the same bytes on every machine.
 */

import { deriveKey } from 'nostrain';
import { utf8 } from '../../src/base/bytes.ts';
import { below, philox } from '../../src/base/rng.ts';

const winds = ['N', 'NE', 'E', 'SE', 'S', 'SW', 'W', 'NW'];
const seas = ['calm', 'smooth', 'slight', 'moderate', 'rough', 'very rough'];
const skies = ['clear', 'hazy', 'overcast', 'squalls', 'drizzle', 'fog'];
const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const sails = ['jib', 'mainsail', 'foresail', 'topsail', 'spanker'];
const hands = ['bosun', 'mate', 'cook', 'carpenter', 'surgeon', 'cabin boy'];
const stores = ['water', 'flour', 'salt pork', 'lamp oil', 'rope', 'tar'];
const remarks = [
  'Set the {sail}, reefed the {sail}.',
  'Sounded {number} fathoms, sand and shell.',
  'Sighted a brig, {number} miles to {wind}, no colours.',
  'The {hand} reports {number} casks of {store}.',
  'Pumped the bilge, {number} inches in the well.',
  'Whales to {wind}, {number} or more.',
  'The {hand} is ill; the {hand} stands his watch.',
  'Patched the {sail}, {number} yards of canvas used.',
  'Lost the log line, spliced a new one.',
  'Passed weed and driftwood, land not far.',
];

type Die = (bound: number) => number;

/** Writes complete days until the text has `minimumBytes` bytes. */
export function writeLogbook({ seed = 1, minimumBytes = 300_000 } = {}): Uint8Array {
  const key = deriveKey('nostrain logbook', seed);
  let drawn = 0;
  const die: Die = (bound) => below(philox(key, drawn++, 0, 0, 0)[0]!, bound);
  const days: string[] = [];
  let pressure = 1013;
  for (let day = 0, length = 0; length < minimumBytes; day++) {
    pressure += die(9) - 4 + Math.sign(1013 - pressure);
    const entry = writeDay(die, day, pressure);
    days.push(entry);
    length += entry.length;
  }
  return utf8(days.join(''));
}

/** Every month of this grammar has thirty days. */
function writeDay(die: Die, day: number, pressure: number): string {
  const date = `${String(1 + (day % 30)).padStart(2, '0')}-${months[Math.floor(day / 30) % 12]}`;
  const lines = [`== ${date} ==`];
  for (const hour of ['0400', '1200', '2000']) {
    const wind = `${winds[die(8)]} ${1 + die(9)}`;
    const state = `sea ${seas[die(6)]}, ${skies[die(6)]}`;
    const remark = remarks[die(remarks.length)]!.replace(/\{(\w+)\}/g, (_, what: string) =>
      word(die, what),
    );
    lines.push(`${hour} | wind ${wind} | ${pressure + die(3)} mb | ${state} | ${remark}`);
  }
  lines.push(`run ${60 + die(140)} nm, ${hands[die(6)]} on watch`);
  return `${lines.join('\n')}\n\n`;
}

function word(die: Die, what: string): string {
  if (what === 'number') return String(2 + die(40));
  const lists: Readonly<Record<string, readonly string[]>> = {
    wind: winds,
    sail: sails,
    hand: hands,
    store: stores,
  };
  const list = lists[what]!;
  return list[die(list.length)]!;
}
