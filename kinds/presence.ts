/** Presence (37811, addressable): a worker says it is alive, in which round, and on which bits. */
import { canonicalObject, featuresMember, listMember, member, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { runScopeRule } from './_shared.ts';
import {
  count,
  expiration,
  hex32,
  index,
  integer,
  name,
  nostrain,
  one,
  pattern,
  repeats,
  word,
} from './_tags.ts';

const DAY = 86_400;
/** So many workers that a beat naming them still fits every relay. */
const MOST_WORKERS = 512;
const LONGEST_CONTENT = 49_152;

const members = {
  run: member(name, 'name of the run'),
  round: member(index, 'round the worker is in'),
  interval: member(integer(1, DAY), 'seconds until the next one is due'),
  base: optionalMember(hex32, 'digest of the state the worker starts the round from'),
  cohort: listMember(hex32, 'workers whose contributions made that state', MOST_WORKERS),
  examples: optionalMember(count, 'training examples the worker has'),
  capabilities: listMember(word, 'what the worker can do; informative', 64),
  relays: listMember(word, 'where else to find the worker; informative', 64),
  status: optionalMember(pattern(/^leaving$/, '`leaving`'), 'in the last one a worker sends'),
  settings: optionalMember(
    hex32,
    'digest of the settings that all workers must share; in a run without a spec',
  ),
  asked: listMember(
    pattern(/^[A-Za-z]{1,32}=[ -~]{0,96}$/, '`name=value`'),
    'those of them that are not the usual ones of the model, ascending',
    64,
  ),
  shard: optionalMember(
    pattern(/^[1-9][0-9]{0,5}\/[1-9][0-9]{0,5}$/, '`K/N`'),
    'which part of the data is its own; beside `settings`',
  ),
  features: featuresMember,
};

/** 37811: a worker is alive, in which round, and on which bits. */
export const presence = defineKind({
  kind: 37811,
  name: 'presence',
  summary: 'a worker is alive, in which round, and on which bits',
  sent: 'first, then if an interval passes without it or a manifest; a newer one replaces it',
  tags: {
    slot: one('d', name, 'the run: one presence per worker'),
    nostrain,
    scope: repeats('s', '`<run>`', 'the run of the content'),
    expiration,
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    { says: '`d` is the run of the content', holds: ({ slot, run }) => slot === run },
    runScopeRule,
    {
      says: '`asked` and `shard` are there only beside `settings`, and `asked` is ascending',
      holds: ({ settings, asked, shard }) =>
        (settings !== undefined || (asked === undefined && shard === undefined)) &&
        (asked ?? []).every((pair, i, all) => i === 0 || all[i - 1]! < pair),
    },
  ],
  notes: `
The worker is the key that signs. The content is canonical JSON, as a manifest's is.

<members>
`,
});
