/** Presence (37811, addressable): a worker reports that it is alive, its round, and the digest of its state. */
import { canonicalObject, featuresMember, listMember, member, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { runScopeRule } from './_shared.ts';
import {
  count,
  displayName,
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

/** Longest interval between events: one day, in seconds. */
const DAY = 86_400;
/** Maximum number of workers in a cohort, so that the event fits every relay. */
const MOST_WORKERS = 512;
/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 49_152;

const members = {
  run: member(name, 'name of the run'),
  name: optionalMember(displayName, 'what people call the worker; informative'),
  round: member(index, 'current round of the worker'),
  interval: member(integer(1, DAY), 'seconds until the next presence is due'),
  base: optionalMember(hex32, 'digest of the state from which the worker starts the round'),
  cohort: listMember(hex32, 'workers whose contributions led to that state', MOST_WORKERS),
  examples: optionalMember(count, 'number of training examples the worker has'),
  capabilities: listMember(word, 'abilities of the worker; informative', 64),
  relays: listMember(word, 'other relays of the worker; informative', 64),
  status: optionalMember(pattern(/^leaving$/, '`leaving`'), 'present in the last one of a worker'),
  settings: optionalMember(
    hex32,
    'digest of the settings that all workers must share; only in a run without a spec',
  ),
  asked: listMember(
    pattern(/^[A-Za-z]{1,32}=[ -~]{0,96}$/, '`name=value`'),
    'those of these settings that differ from the defaults of the model, ascending',
    64,
  ),
  shard: optionalMember(
    pattern(/^[1-9][0-9]{0,5}\/[1-9][0-9]{0,5}$/, '`K/N`'),
    "the worker's shard of the data; only with `settings`",
  ),
  features: featuresMember,
};

/** 37811: a worker reports that it is alive, its round, and the digest of its state. */
export const presence = defineKind({
  kind: 37811,
  name: 'presence',
  summary: 'a worker reports that it is alive, its round, and the digest of its state',
  sent: 'at the start, then after each interval without it or a manifest; a newer one replaces it',
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
      says: '`asked` and `shard` are present only with `settings`, and `asked` is ascending',
      holds: ({ settings, asked, shard }) =>
        (settings !== undefined || (asked === undefined && shard === undefined)) &&
        (asked ?? []).every((pair, i, all) => i === 0 || all[i - 1]! < pair),
    },
  ],
  notes: `
The worker is the signing key. The content is canonical JSON, like that of a manifest.

<members>
`,
});
