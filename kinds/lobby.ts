/** Lobby (37814, addressable): a host gathers the founders of a run, then names the run. */
import { canonicalObject, listMember, member, optionalMember } from './_content.ts';
import { defineKind } from './_define.ts';
import { displayName, expiration, hex32, integer, nostrain, one, pattern } from './_tags.ts';

/** Maximum length of a content, in characters. */
const LONGEST_CONTENT = 16_384;
/** Maximum number of people with a name: the event fits every relay. */
const MOST_PEOPLE = 64;

const members = {
  people: member(integer(2, 512), 'number of people, host included, with whom the run starts'),
  by: optionalMember(displayName, 'name of the host'),
  lock: optionalMember(
    hex32,
    'digest of the secret of the lobby; only attendees that prove to know the secret count',
  ),
  what: member(displayName, 'model and data, for people'),
  text: optionalMember(hex32, 'digest of the training data (kind 7819), if attendees download it'),
  textBytes: optionalMember(integer(1, 2 ** 36), 'length of the data; only with `text`'),
  textName: optionalMember(
    pattern(/^text(?:\.[A-Za-z0-9]{1,15})?$/, '`text` and an extension'),
    'file name of the data; only with `text`',
  ),
  run: optionalMember(hex32, 'id of the run that the host made, once it has started'),
  names: listMember(
    pattern(/^[0-9a-f]{64} [^\p{C}]{1,64}$/u, 'a key, a space and a name'),
    'names of founders; only with `run`',
    MOST_PEOPLE,
  ),
};

/** 37814: a host gathers the founders of a run, then names the run. */
export const lobby = defineKind({
  kind: 37814,
  name: 'lobby',
  summary: 'a host gathers the founders of a run, then names the run',
  sent: 'every 30 s until the run starts, then once more; a newer one replaces it',
  tags: {
    lobby: one(
      'd',
      pattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/, 'a short name'),
      'name of the lobby',
    ),
    nostrain,
    expiration,
  },
  content: canonicalObject(members, LONGEST_CONTENT),
  rules: [
    {
      says: '`textBytes` and `textName` are present only with `text`',
      holds: ({ text, textBytes, textName }) =>
        (text === undefined) === (textBytes === undefined) &&
        (text === undefined) === (textName === undefined),
    },
    {
      says: '`names` is present only with `run`',
      holds: ({ run, names }) => names === undefined || run !== undefined,
    },
  ],
  notes: `
The host is the signing key. \`lock\` is the SHA-256 of the fields \`nostrain/lobby/1\`, secret,
host and lobby, each as UTF-8 after its length as a little-endian u32; the secret is 32 hex digits.
The author of the run (kind 37810) is the host, and its founders are the attendees that were present
at the start. The content is canonical JSON, like that of a manifest.

<members>
`,
});
