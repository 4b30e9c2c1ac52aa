/** The flags of `nostrain demo`; src/cli/commands/demo.ts says which demo takes which. */
import { fields } from '../../src/run/options.ts';
import {
  parsed,
  several,
  text,
  toggle,
  whole,
  withDefault,
} from '../../src/terminal/flag-table.ts';
import { elasticFlags } from '../elastic/flags.ts';

export const demoFlags = {
  workers: whole('<n>', 'worker processes (4, or 8 with --long)', 1, 64),
  rounds: whole('<n>', fields.rounds.help, 1),
  innerSteps: whole('<n>', fields.innerSteps.help, 1),
  seed: withDefault(whole('<n>', fields.seed.help, 0), 1),
  corpus: text(
    '<file>',
    'what to train on: a text or .jsonl file, or its https address; ' +
      'series: a CSV; images: a folder of pictures',
  ),
  base: text(
    '<model>',
    'finetune, notes, browser: folder, .gguf file or hf:owner/name ' +
      '(finetune, notes: default SmolLM2, or a small generated model)',
  ),
  certified: toggle(
    'finetune, notes, series, images, onnx, elastic: as a certified run, in which a ' +
      'committee signs each round',
  ),
  relay: several('<url>', 'use this relay instead of starting one, repeatable'),
  profile: parsed('<name>', fields.profile.help, (text) => fields.profile.read(text, '--profile')),
  settings: text('<file>', 'JSON file with other settings for every worker'),
  dir: text('<dir>', 'folder for the workers (default: in your data folder, replaced each time)'),
  reference: toggle('linear: use the data and settings of the Python reference'),
  quick: toggle('fewer rounds and steps: about a minute'),
  long: toggle('many workers and rounds, until training together beats training alone'),
  attack: text('<name>', 'byzantine: what hostile workers do (default: sign-flip)'),
  hostile: parsed('<f/n>', 'byzantine: hostile workers out of all (default: 2/8)', (text) =>
    fields.shard.read(text, '--hostile'),
  ),
  rule: text('<name>', 'byzantine: aggregation rule (default: clipped-mean)'),
  table: toggle(
    'byzantine: table of every attack against every rule, or only of --attack and --rule',
  ),
  skewed: toggle('byzantine: each worker trains on its own range of the text'),
  seeds: whole('<n>', 'byzantine: average over n seeds, starting at --seed', 1, 100),
  keep: text('<file>', 'byzantine: save each result to this file and skip results already in it'),
  picture: text('<file>', 'byzantine: also draw the table as SVG to this file'),
  headless: toggle('print plain lines even on a terminal'),
  json: toggle('print one JSON document on stdout, everything else on stderr'),
  ...elasticFlags,
};
