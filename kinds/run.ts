/** Run (37810, addressable): the spec of a run, so that an address is enough to join it. */
import { sha256 } from '@noble/hashes/sha2.js';
import { jsonObject } from './_content.ts';
import { defineKind } from './_define.ts';
import { expiration, hex32, nostrain, one, repeats } from './_tags.ts';

const notes = `
The content is the canonical text of the run spec, JSON by RFC 8785 (JCS); docs/run-spec.md lists
all fields. The run id is the SHA-256 of that text in UTF-8, and the signing key is the spec's
\`author\`. Events of a run name the run id. A server of the spec need not be trusted, since the
address contains the hash.
`;

const hashOf = (text: string): string =>
  Array.from(sha256(new TextEncoder().encode(text)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');

/** 37810: the spec of a run: everything that all its workers must do alike. */
export const run = defineKind({
  kind: 37810,
  name: 'run',
  summary: 'the spec of a run: everything that all its workers must do alike',
  sent: 'when the run is created; a newer one with the same `d` has the same content',
  tags: {
    run: one('d', hex32, 'the run id'),
    nostrain,
    scope: repeats('s', '`<run id>`', 'the run id, for relays to index'),
    expiration,
  },
  content: jsonObject('spec', 'the run spec below'),
  rules: [
    { says: '`d` is the SHA-256 of the content', holds: ({ run, spec }) => run === hashOf(spec) },
    {
      says: '`s` is the run id',
      holds: ({ scope, run }) => scope.length === 1 && scope[0] === run,
    },
  ],
  notes,
});
