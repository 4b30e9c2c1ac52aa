/**
 * One word has one meaning, and names are nouns: the words that docs/decisions/0036-plain-english.md replaced do not
 * come back into the names, comments and messages of the program.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Words that no name may contain. A name says what it holds instead: `manifest`, `request`, `localUpdate`. */
const NAME_WORDS: ReadonlySet<string> = new Set(
  [
    'turned stripe stripes striped ring rings room rooms board stretch door duty',
    'said told asked found held brought own here showing again terms pace paced look looks',
    'spread past copies',
  ].flatMap((line) => line.split(' ')),
);

/**
 * Names that stay, in files that begin with this path: JavaScript's own, and members of documents that others read: on
 * the wire, in specs and settings, on disk, in `--json`.
 */
const ALLOWED: readonly (readonly [name: string, path: string, why: string])[] = [
  ['HELD_OUT', '', 'held-out set: the word of the field'],
  ['againAfterSeconds', 'src/cli/', 'field of relays check --json'],
  ['againAfterSeconds', 'src/probe/', 'field of relays check --json'],
  ['asked', 'kinds/presence.ts', 'member of the content on the wire'],
  ['asked', 'src/certified/decisions/chain.ts', 'member of the ledger'],
  ['asked', 'src/consensus/round/', 'state of a round on disk, and a member of the ledger'],
  ['asked', 'src/network/wire/native-profile.ts', 'field of kind 37811'],
  ['asked', 'src/run/spec/features.ts', 'field of seats in the ledger'],
  ['copies', 'src/cli/', 'flag --copies'],
  ['found', 'demos/', 'field of demo linear --json'],
  ['hasOwn', '', 'JavaScript'],
  ['held', 'src/certified/rounds/', 'state of a round on disk'],
  ['held', 'src/cli/commands/checkpoint/seed.ts', 'field of kind 37812'],
  ['held', 'src/consensus/round/', 'state of a round on disk'],
  ['held', 'src/network/directory/', 'field of kind 37812'],
  ['held', 'src/network/wire/holders.ts', 'field of kind 37812'],
  ['held', 'src/node/checkpoint/run-', 'field of holder events'],
  ['here', 'src/cli/commands/checkpoint/checkpoint.ts', 'field of checkpoint list --json'],
  ['isHeldOut', '', 'held-out set: the word of the field'],
  ['own', 'src/certified/rounds/', 'votes.json on disk (Entry.own)'],
  ['own', 'src/cli/commands/model.ts', 'Tiers.own'],
  ['own', 'src/node/', 'tier.own of model specs and events'],
  ['own', 'src/run/', 'telemetry field of manifests, and data.kind own'],
  ['own', 'src/worker/events.ts', 'field of the hello event (--json)'],
  ['own', 'src/dashboard/picture-of.ts', 'telemetry field of manifests'],
  ['own', 'src/model/', 'tiers.own of model specs'],
  ['own', 'src/trainer/', 'tiers.own of model specs'],
  ['pace', 'src/certified/features/rerun.ts', 'section pace of a spec'],
  ['pace', 'src/worker/train.ts', 'field of manifests'],
  ['stripe', 'src/node/', 'setting `stripe`, and data of an error'],
  ['ownLoss', 'src/cli/', 'field of RunPicture (watch --ndjson)'],
  ['pace', 'src/cli/commands/run/create.ts', 'section pace of a spec'],
  ['pace', 'src/run/spec/', 'section and feature pace of a spec'],
  ['past', 'src/certified/state.ts', 'key of state.safetensors'],
  ['relayCopies', '', 'flag --relay-copies'],
  ['ring', 'src/certified/records/replay-run.ts', 'record.json'],
  ['ring', 'src/cli/shared/archive-source.ts', 'record.json'],
  ['rings', 'src/certified/', 'field of widths in outcomes and manifests'],
  ['rings', 'src/cli/commands/run/inspect.ts', 'start.rings of a spec'],
  ['rings', 'src/network/wire/', 'field of widths in manifests (kind 7810)'],
  ['rings', 'src/node/pretrained/base-model.ts', 'start.rings of a spec'],
  ['rings', 'src/run/', 'start.rings, and field of widths in outcomes, manifests and heartbeats'],
  ['rings', 'src/worker/', 'field of widths in manifests and heartbeats'],
  ['spread', 'demos/byzantine/table.ts', 'field of --json'],
  ['stripe', 'src/certified/security-report.ts', 'setting `stripe`'],
  ['stripe', 'src/cli/', 'setting `stripe`, flag --stripe and fields of --json'],
  ['stripe', 'src/network/chunks/manifest.ts', 'field of the file manifest'],
  ['stripe', 'src/network/wire/cost.ts', 'field of plan --json'],
  ['stripe', 'src/run/options.ts', 'setting `stripe`'],
];

/** Phrases that stand where a noun is missing. */
const PHRASES =
  /\b(so many|what comes of|whoever|nobody|somebody|for who|(?<!there )(?:is|are) none|turned chunk|head start|made-up)\b/i;
const MOST_PHRASES = 20;

const texts = new Map(
  ['src', 'kinds', 'relay', 'demos'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter(({ name }) => name.endsWith('.ts') && !name.endsWith('_pb.ts'))
      .map((entry) => relative(root, join(entry.parentPath, entry.name)))
      .map((file) => [file, readFileSync(join(root, file), 'utf8')] as const),
  ),
);

/** The words of a name: `heldOutRows` has held, out and rows. */
const wordsOf = (name: string): readonly string[] =>
  name
    .replace(/^#/, '')
    .split(/(?<=[a-z0-9])(?=[A-Z])|_/)
    .map((word) => word.toLowerCase());

const isAllowed = (name: string, file: string): boolean =>
  ALLOWED.some(([allowed, path]) => allowed === name && file.startsWith(path));

function refusedNames(file: string, text: string): readonly string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const names = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) names.add(node.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return [...names]
    .filter((name) => wordsOf(name).some((word) => NAME_WORDS.has(word)) && !isAllowed(name, file))
    .map((name) => `${file}: ${name}`);
}

describe('the words of the house', () => {
  it('are nouns in names', { timeout: 120_000 }, () => {
    expect([...texts].flatMap(([file, text]) => refusedNames(file, text))).toEqual([]);
  });

  it('leave no riddles in comments and messages', () => {
    const lines = [...texts].flatMap(([file, text]) =>
      text.split('\n').flatMap((line, i) => (PHRASES.test(line) ? [`${file}:${i + 1}`] : [])),
    );
    expect(lines.length <= MOST_PHRASES ? [] : lines).toEqual([]);
  });
});
