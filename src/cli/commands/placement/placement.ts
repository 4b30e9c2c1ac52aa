/** `nostrain placement`: prints which holders keep which objects under a placement document, and checks each rule. */

import { isHex32, utf8 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { sha256Hex } from '../../../base/hash.ts';
import { type Objects, place } from '../../../consensus/placement/place.ts';
import type { Exclusion, Unsatisfied } from '../../../consensus/placement/satisfy.ts';
import type { WorkerId } from '../../../run/ids.ts';
import type {
  Attribute,
  Holder,
  PlacementPolicy,
  PlacementRule,
} from '../../../run/placement-policy.ts';
import { fullName, shortName } from '../../../run/worker-names.ts';
import { defineCommand, defineGroup } from '../../../terminal/command.ts';
import { text, toggle, whole, withDefault } from '../../../terminal/flag-table.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../../terminal/output.ts';
import {
  askFlags,
  askRelays,
  checkAskFlags,
  type PlacementInput,
  readPlacementFiles,
} from './input.ts';

interface ShownHolder extends Omit<Holder, 'classes' | 'capacity'> {
  /** Number of the objects that it keeps. */
  readonly objects: number;
}

interface ShownRule {
  /** Path of the rule in the document. */
  readonly rule: string;
  readonly needed: string;
  /** The value of the object that has the fewest. */
  readonly has: string;
  readonly holds: boolean;
}

interface ClassDocument {
  readonly class: string;
  /** SHA-256 of the given name, or the given 64 hex digits. */
  readonly object: string;
  readonly count: number;
  /** False if nothing is placed. */
  readonly placed: boolean;
  /** Why the rule as written cannot be satisfied. */
  readonly unsatisfied?: Unsatisfied;
  readonly rules: readonly ShownRule[];
  /** Holders in the order of the draw, those of the first object first. */
  readonly holders: readonly ShownHolder[];
  /** Holder keys by object; the first holder of each is the first to ask. */
  readonly objects: readonly (readonly WorkerId[])[];
  readonly excluded: readonly Exclusion[];
}

const MOST_OBJECTS = 100_000;

export const placementCheck = defineCommand({
  name: 'check',
  help: 'print the holders of an object, and check each rule of the placement document',
  args: [
    [
      '[file...]',
      'placement document (.toml, .json; default: that of --run), and events of holders (.jsonl)',
    ],
  ],
  flags: {
    object: withDefault(
      text('<id>', 'object: 64 hex digits, or a name, of which the SHA-256 is used'),
      'example',
    ),
    class: text('<name>', 'class of the object (default: each class of the document)'),
    count: withDefault(
      whole(
        '<n>',
        'number of objects to place, such as the chunks of a checkpoint',
        1,
        MOST_OBJECTS,
      ),
      1,
    ),
    json: toggle('print JSON'),
    ...askFlags,
  },
  async run(flags, { args: [files], signal, command }) {
    checkAskFlags(command, flags);
    const ask = (filePolicy: PlacementPolicy | undefined) => askRelays(flags, filePolicy, signal);
    const input = await readPlacementFiles(files, ask, Math.floor(Date.now() / 1000));
    const known = Object.keys(input.policy.objects);
    if (flags.class !== undefined && !known.includes(flags.class)) {
      throw new ConfigError('placement/class', `the document has no class ${flags.class}`, {
        hint: `name one of ${known.join(', ')}`,
      });
    }
    const id = isHex32(flags.object) ? flags.object : sha256Hex(utf8(flags.object));
    const names = flags.class === undefined ? known : [flags.class];
    const classes = names.map((name) => describe(input, { id, name, count: flags.count }));
    writeOut(flags.json ? asJson({ classes }) : classes.map(words).join('\n'));
    const { onUnsatisfiable } = input.policy;
    for (const each of classes) {
      if (each.unsatisfied === undefined) continue;
      const level = each.placed ? 'ALERT' : 'error';
      writeNote(`${level} (placement/unsatisfied): ${wordShortage(each.unsatisfied)}`);
      if (!each.placed)
        writeNote(
          `  no object of class ${each.class} is placed: on_unsatisfiable is "${onUnsatisfiable}"`,
        );
      writeNote(`  try: ${wordRelaxation(each.unsatisfied)}`);
    }
    if (classes.some(({ placed }) => !placed)) process.exitCode = exitCodes.failed.code;
  },
});

function describe({ policy, holders, absent }: PlacementInput, objects: Objects): ClassDocument {
  const { id, name, count } = objects;
  const made = place(policy, holders, objects);
  const silent = absent.map((key) => ({
    key,
    reason: 'a member of the run that announces no capacity',
  }));
  const excluded = [...made.excluded, ...silent];
  const shown = { class: name, object: id, count, excluded };
  if (!made.ok) {
    return {
      ...shown,
      placed: false,
      unsatisfied: made.unsatisfied,
      rules: [],
      holders: [],
      objects: [],
    };
  }
  const byKey = new Map(holders.map((holder) => [holder.key, holder]));
  const loads = new Map<WorkerId, number>();
  for (const key of made.holders.flat()) loads.set(key, (loads.get(key) ?? 0) + 1);
  const drawn = [...loads].map(([key, load]) => {
    const { region, tier, weight, attested } = byKey.get(key)!;
    return { key, region, tier, weight, attested, objects: load };
  });
  return {
    ...shown,
    placed: true,
    ...(made.alert && { unsatisfied: made.alert }),
    rules: rulesOf(
      name,
      made.rule,
      made.holders.map((keys) => keys.map((key) => byKey.get(key)!)),
    ),
    holders: drawn,
    objects: made.holders,
  };
}

/** Compares each part of the rule with the object that has the fewest. */
function rulesOf(
  name: string,
  rule: PlacementRule,
  objects: readonly (readonly Holder[])[],
): readonly ShownRule[] {
  const ruleOf = (part: string, needed: string, has: string, holds: boolean): ShownRule => {
    return { rule: `objects.${name}.${part}`, needed, has, holds };
  };
  const { replicas, minDistinct, attested, only } = rule;
  const parts: readonly (readonly [string, number, (holder: Holder) => string])[] = [
    ['replicas', replicas, ({ key }) => key],
    ['min_distinct.regions', minDistinct.regions, ({ region }) => region],
    ['min_distinct.tiers', minDistinct.tiers, ({ tier }) => tier],
  ];
  const counts = parts.map(([part, needed, of]) => {
    const fewest = objects
      .map((holders) => [...new Set(holders.map(of))])
      .reduce((a, b) => (b.length < a.length ? b : a));
    const { length } = fewest;
    const has =
      part === 'replicas' ? `${length} holders` : `${length}: ${fewest.sort().join(', ')}`;
    return ruleOf(part, String(needed), has, length >= needed);
  });
  const all = [...new Set(objects.flat())];
  const demands = attested.map((each) => {
    const by = [...new Set(all.map((holder) => holder.attested[each] ?? 'no attestor'))].join(', ');
    const holds = all.every((holder) => holder.attested[each] !== undefined);
    return ruleOf('attested', `${each} attested`, `by ${by}`, holds);
  });
  const limits = (['regions', 'tiers'] as const).flatMap((part) => {
    if (only[part].length === 0) return [];
    const fewest = [...new Set(all.map((each) => (part === 'regions' ? each.region : each.tier)))];
    const holds = fewest.every((each) => only[part].includes(each));
    return [ruleOf(`only.${part}`, only[part].join(', '), fewest.sort().join(', '), holds)];
  });
  return [...counts, ...demands, ...limits];
}

const wordShortage = ({ rule, needed, available }: Unsatisfied): string =>
  `${rule} needs ${needed}, ${available} ${available === 1 ? 'is' : 'are'} available`;

function wordRelaxation({ relaxation }: Unsatisfied): string {
  if (relaxation.length === 0) return 'add holders: no change of this rule is enough';
  const changes = relaxation.map(({ rule, from, to }) => `${rule} = ${to} (is ${from})`);
  return `${changes.join(', ')}, or add holders`;
}

const MOST_SHOWN = 32;

function words(document: ClassDocument): string {
  const { holders, rules, excluded, count, object } = document;
  const what = count === 1 ? 'object' : `${count} objects of`;
  const lines = [`${document.class}: ${what} ${object}`];
  for (const each of holders.slice(0, MOST_SHOWN)) lines.push(`  ${holderLine(each, count)}`);
  if (holders.length > MOST_SHOWN) {
    lines.push(`  and ${holders.length - MOST_SHOWN} more (--json has all)`);
  }
  for (const { rule, needed, has, holds } of rules) {
    lines.push(`  ${holds ? 'holds' : 'DOES NOT HOLD'}  ${rule} = ${needed}: ${has}`);
  }
  for (const { key, reason } of excluded.slice(0, MOST_SHOWN))
    lines.push(`  not drawn  ${fullName(key)}: ${reason}`);
  if (excluded.length > MOST_SHOWN)
    lines.push(`  and ${excluded.length - MOST_SHOWN} more not drawn`);
  return `${lines.join('\n')}\n`;
}

function holderLine(
  { key, region, tier, weight, attested, objects }: ShownHolder,
  count: number,
): string {
  const claim = (name: Attribute, value: string) => {
    const by = attested[name];
    const source = by === undefined ? 'self-reported' : `attested by ${shortName(by)}`;
    return `${name} ${value} (${source})`;
  };
  const load = count === 1 ? '' : `, ${objects} objects`;
  const claims = `${claim('region', region)}, ${claim('tier', tier)}`;
  return `${fullName(key)}  ${claims}, weight ${weight}${load}`;
}

export const placement = defineGroup(
  'placement',
  'show which holders keep the checkpoints and results of a run, and check each rule',
  [placementCheck],
);
