/**
 * All settings of a training run, one row each: meaning, form, flag, default, and scope. Command line, settings file,
 * run spec, fingerprint, plan, completion and docs/reference are generated from these rows. A row without a flag is set
 * with `--set name=value`; defaults that depend on the model are in `spec/presets.ts`.
 */
import { beforeNames, ruleNames, usualAggregation } from './aggregation.ts';
import { importedModels } from './data-forms.ts';
import {
  choice,
  form,
  type Group,
  inScope,
  kOfN,
  origin,
  real,
  row,
  shard,
  sizes,
  sync,
  text,
  texts,
  whole,
  workerKeys,
  yesNo,
} from './field.ts';
import { groupTexts } from './groups.ts';
import { removedPackings, removedResiduals } from './removed.ts';
import {
  arithmetics,
  forecastErrors,
  MOST_EXPERTS,
  MOST_TIERS,
  precisions,
  scalings,
  tierStrategies,
} from './spec/model-spec.ts';

/** Encodings of a delta as a payload of `nostrain/1` (docs/payload.md). */
export const packingNames = ['int8', 'trellis'] as const;

const rate = real(0, 1000, 'from');

/** All options by name: type, flag, help and scope. */
export const fields = {
  ...inScope('name', {
    run: row('name of the run; same name and relays: same run', text(), { flag: '--run <name>' }),
    profile: row(
      'wire format: of this program, or of the Python reference',
      choice(['nostrain/1', 'nostrain/0']),
      { default: 'nostrain/1' },
    ),
  }),
  ...inScope('personal', {
    relay: row('relay to use; repeatable', texts(), { flag: '--relay <url>', many: true }),
    base: row('model to start from: folder, .gguf, .onnx or hf:owner/name', origin(), {
      flag: '--base <path>',
      default: '',
      needs: 'files',
    }),
    shard: row('part of the data to train on, such as 2/4', shard(), {
      flag: '--shard <k/n>',
      default: { index: 1, count: 1 },
      fixed: true,
    }),
    group: row(
      'group whose experts this worker trains, in a run with groups',
      form('a name, or empty', /^[A-Za-z0-9_-]{0,32}$/),
      {
        default: '',
        fixed: true,
      },
    ),
    sync: row('when to close a round: timeout, strict:N, quorum, async', sync(), {
      flag: '--sync <strategy>',
      default: { strategy: 'timeout' },
    }),
    tier: row(
      'with --tiers: tier to train, 0 (full model) to 8, or auto',
      choice(['auto', ...Array.from({ length: MOST_TIERS + 1 }, (_, tier) => `${tier}` as const)]),
      { flag: '--tier <t>', default: 'auto', fixed: true, needs: 'tiers' },
    ),
    tierStrategy: row(
      'read a tier from a slice, the full model, or what there is',
      choice(tierStrategies),
      { default: 'auto', needs: 'slices' },
    ),
    basePrecision: row('numbers that hold a base under adapters', choice(precisions), {
      default: 'f32',
      fixed: true,
      needs: 'adapters',
    }),
    precision: row('numbers of matrix products in training', choice(arithmetics), {
      flag: '--precision <type>',
      default: 'f32',
    }),
    recompute: row('compute activations twice: less memory, a third more time', yesNo(), {
      flag: '--recompute',
      default: false,
      needs: 'transformers',
    }),
    accumulate: row('micro-batches of a step, to save memory', whole(1), { default: 1 }),
    evaluate: row('skip the validation loss and sample of each round', yesNo(), {
      flag: '--no-evaluate',
      default: true,
    }),
    waitFor: row('live workers to wait for; 0: N of strict:N, else 1', whole(), { default: 0 }),
    joinTimeout: row('seconds to wait for them, and for a first relay', real(0, 604_800, 'from'), {
      default: 600,
    }),
    heartbeatInterval: row('seconds between two heartbeats', whole(1), {
      flag: '--heartbeat-interval <s>',
      python: true,
      default: 60,
    }),
    maxMissedHeartbeats: row('heartbeats a worker may miss before it counts as gone', whole(1), {
      flag: '--max-missed-heartbeats <n>',
      python: true,
      default: 3,
    }),
    stripe: row('relays that share a large payload, any k of n enough', kOfN(), {
      default: { need: 1, of: 1 },
      fixed: true,
      needs: 'native',
    }),
  }),
  ...inScope('alone', {
    peers: row('public keys of the only workers to train with, yours included', workerKeys(), {
      flag: '--peers <keys>',
      default: [],
      fixed: true,
    }),
    roundTimeout: row(
      "seconds to wait for contributions, counted from the worker's own",
      real(0, 86_400, 'from'),
      { flag: '--round-timeout <s>', python: true, default: 60 },
    ),
    helper: row('hold the full model and train slices of it in turn', yesNo(), {
      default: false,
      fixed: true,
      needs: 'helpers',
    }),
    codec: row(
      'nostrain/0: compression; zstd only if all workers read it',
      choice(['zlib', 'zstd']),
      { flag: '--codec <name>', python: true, default: 'zlib', needs: 'reference' },
    ),
    checkpointHistory: row('nostrain/0: checkpoints to keep on the relays', whole(1), {
      flag: '--checkpoint-history <n>',
      python: true,
      default: 4,
      needs: 'reference',
    }),
  }),
  ...inScope('agreed', {
    helperRotation: row('rounds of a slice of helpers; 0: no helpers', whole(), {
      default: 0,
      needs: 'tiers',
    }),
    validators: row(
      'public keys that score and merge contributions; none: all average',
      workerKeys(),
      {
        default: [],
        needs: 'native',
      },
    ),
    mergeStart: row('Unix time in seconds at which round 1 begins', whole(), {
      default: 0,
      needs: 'validators',
    }),
    mergeTrain: row('seconds in which workers train before each merge', real(0, 86_400, 'from'), {
      default: 600,
      needs: 'validators',
    }),
    mergeTimeout: row('seconds to wait for merges before asking again', real(0, 3600, 'from'), {
      default: 60,
      needs: 'validators',
    }),
    mergeRetries: row('waits for merges, of mergeTimeout each', whole(1, 16), {
      default: 2,
      needs: 'validators',
    }),
    mergeTop: row('contributions that a validator merges, the best ones', whole(1, 64), {
      default: 8,
      needs: 'validators',
    }),
    mergeCutoff: row('score above which it merges, in millionths of the loss', whole(), {
      default: 0,
      needs: 'validators',
    }),
  }),
  ...inScope('top', {
    tiers: row('times the width may be halved for small machines', whole(0, MOST_TIERS), {
      flag: '--tiers <n>',
      default: 0,
      feature: 'widths',
      needs: 'text',
    }),
  }),
  ...inScope('training', {
    model: row(
      'model to train, or an .onnx file, with --task',
      choice([
        'char-gpt',
        'gpt',
        'linear',
        'mlp',
        'pretrained',
        'forecaster',
        'vit',
        ...importedModels,
      ]),
      { flag: '--model <name>' },
    ),
    width: row('width of the residual stream', whole(1, 65_536), { default: 128, needs: 'blocks' }),
    layers: row('number of blocks', whole(1, 1024), { default: 4, needs: 'blocks' }),
    heads: row('attention heads of each block', whole(1, 1024), { default: 4, needs: 'blocks' }),
    ffn: row('hidden width of the feed-forward layers', whole(1, 262_144), {
      default: 512,
      needs: 'blocks',
    }),
    context: row('tokens of a window; forecaster: steps it reads', whole(2, 65_536), {
      flag: '--context <n>',
      default: 128,
      needs: 'context',
    }),
    hidden: row('mlp: widths of the hidden layers', sizes(), { default: [32], needs: 'mlp' }),
    tokens: row('how characters become tokens', choice(['chars', 'bytes']), {
      default: 'chars',
      needs: 'builtInText',
    }),
    seed: row('random seed; must be the same for everyone', whole(), {
      flag: '--seed <n>',
      default: 1,
    }),
    rounds: row('rounds of the whole run', whole(1), { flag: '--rounds <n>' }),
    innerSteps: row('optimizer steps of each worker in a round (H)', whole(1), {
      flag: '--inner-steps <n>',
    }),
    batchSize: row('examples per optimizer step', whole(1), { flag: '--batch-size <n>' }),
    optimizer: row('inner optimizer', choice(['adamw', 'muon', 'sgd']), {
      flag: '--optimizer <name>',
    }),
    localLearningRate: row('peak learning rate of the inner optimizer', rate, {
      flag: '--local-learning-rate <x>',
    }),
    warmupSteps: row('steps of warm-up to the peak learning rate', whole(), { default: 0 }),
    finalShare: row('share of the peak rate left at the end (cosine)', real(0, 1), { default: 1 }),
    weightDecay: row('weight decay of adamw and muon', real(0, 10), { default: 0, needs: 'decay' }),
    clipNorm: row('largest norm of a gradient; 0: no clipping', real(0, 1e9), { default: 0 }),
    outerLearningRate: row('rate of the outer step; 1 with momentum 0 is averaging', rate, {
      flag: '--outer-learning-rate <x>',
      python: true,
      default: 1,
    }),
    momentum: row('Nesterov momentum of the outer step', real(0, 1, 'to'), {
      flag: '--momentum <x>',
      python: true,
      default: 0,
    }),
    packing: row(
      'codec of deltas: 8 bits a value, or as many as eventBudget allows, at most 2',
      choice(packingNames, removedPackings),
      { default: 'int8', needs: 'native' },
    ),
    eventBudget: row('bytes a worker may send in a round; up to 65536 is one event', whole(2048), {
      default: 65_536,
      needs: 'budget',
    }),
    owners: row('workers that send each chunk; 0: all send all', whole(), {
      default: 0,
      needs: 'native',
    }),
    fragments: row('parts of the model sent in turn', whole(1), { default: 1, needs: 'native' }),
    topk: row('nostrain/0: share of the values to send', real(0, 1, 'from'), {
      flag: '--topk <ratio>',
      python: true,
      default: 1,
      needs: 'reference',
    }),
    residual: row(
      'what a payload does not carry: add it to the next delta, or drop it',
      choice(['feedback', 'none'], removedResiduals),
      { default: 'feedback' },
    ),
    weights: row('weight of a contribution', choice(['examples', 'equal']), {
      default: 'examples',
    }),
    maxExamples: row('most examples a contribution counts for; 0: those of a round', whole(), {
      default: 0,
    }),
    normalize: row(
      'divide by the weights of all owners of a chunk, or of senders',
      choice(['workers', 'senders']),
      { default: 'workers', needs: 'native' },
    ),
  }),
  ...inScope('adapter', {
    rank: row('rank of the adapters; 0 trains all parameters', whole(), {
      flag: '--rank <n>',
      default: 8,
      needs: 'pretrained',
    }),
    alpha: row('adapters are scaled by alpha / rank', real(0, 1e6, 'from'), {
      default: 16,
      needs: 'pretrained',
    }),
    targets: row(
      'layers with an adapter: qv, attention, all-linear, or ends of their names',
      text(),
      { default: 'qv', needs: 'pretrained' },
    ),
  }),
  ...inScope('input', {
    horizon: row('steps that are forecast', whole(1), { default: 24, needs: 'forecaster' }),
    patch: row('forecaster: steps of a patch; vit: pixels of its side', whole(1), {
      default: 8,
      needs: 'patches',
    }),
    forecastError: row(
      'mean of squares, or the quantiles 0.1, 0.5 and 0.9 of every number',
      choice(forecastErrors),
      { default: 'squared', needs: 'forecaster' },
    ),
    scaling: row('scale by each window too, or by the training part alone', choice(scalings), {
      default: 'window',
      needs: 'forecaster',
    }),
    pixels: row('side of the squares that pictures are scaled to', whole(1), {
      default: 24,
      needs: 'vit',
    }),
  }),
  ...inScope('aggregation', {
    rule: row('how contributions become one step', choice(ruleNames), {
      default: usualAggregation.rule,
    }),
    hostile: row('hostile contributions that the rule withstands (f); 0 for means', whole(0, 512), {
      default: usualAggregation.hostile,
      needs: 'robust',
    }),
    before: row(
      'before the rule: mean of nearest rows (nnm) or of random pairs (bucketing)',
      choice(beforeNames),
      { default: usualAggregation.before, needs: 'robust' },
    ),
    leastRatePermille: row(
      'outer rate, in thousandths, where rows point in opposite directions',
      whole(0, 1000),
      { default: usualAggregation.leastRatePermille },
    ),
  }),
  ...inScope('mixture', {
    experts: row('experts in place of each feed-forward layer; 0: none', whole(0, MOST_EXPERTS), {
      default: 0,
      needs: 'builtIn',
    }),
    expertsPerToken: row('experts that a token passes through', whole(1, 2), {
      default: 2,
      needs: 'experts',
    }),
    groups: row('workers that train some of the experts, like code=2,3', groupTexts(), {
      default: [],
      many: true,
      needs: 'experts',
    }),
    warmupRounds: row('first rounds in which all groups train everything', whole(), {
      default: 1,
      needs: 'experts',
    }),
    sharedEvery: row(
      'after them: every how many rounds groups train shared tensors too; 0: never',
      whole(),
      { default: 1, needs: 'experts' },
    ),
  }),
  ...inScope('pace', {
    innerSeconds: row(
      'seconds of training in a round, at most innerSteps; 0: no limit',
      real(0, 86_400),
      { default: 0 },
    ),
    leastSteps: row('with innerSeconds: least steps of a round', whole(1), {
      default: 1,
      needs: 'innerSeconds',
    }),
  }),
} as const satisfies Group;
