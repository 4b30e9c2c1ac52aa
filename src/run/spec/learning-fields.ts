/** The settings of what is trained and how: the model, its base and adapters, the worker's data, its steps, the outer step. */
import { choice, type Field, origin, real, shard, sizes, text, whole, yesNo } from '../field.ts';
import { forecastErrors, MOST_TIERS, precisions, scalings, tierStrategies } from './model-spec.ts';

const rate = { from: 0, to: 1000, open: 'from' } as const;

export const learningFields = {
  model: choice('--model <name>', 'model to train', [
    'char-gpt',
    'gpt',
    'linear',
    'mlp',
    'pretrained',
    'forecaster',
    'vit',
  ]),
  base: origin(
    '--base <path>',
    'published model to start from: its folder, a .gguf file or hf:owner/name; means --model pretrained',
  ),
  rank: whole(
    '--rank <n>',
    'pretrained: rank of the adapters that are trained; 0 trains all parameters instead',
  ),
  alpha: real('--alpha <x>', 'pretrained: what adapters add counts alpha / rank times', {
    from: 0,
    to: 1e6,
    open: 'from',
  }),
  targets: text(
    '--targets <layers>',
    'pretrained: layers with an adapter: qv, attention, all-linear, or ends of their names',
  ),
  basePrecision: choice(
    '--base-precision <numbers>',
    'pretrained: how this worker holds the base beside adapters; fewer bits take less memory',
    precisions,
  ),
  width: whole('--width <n>', 'gpt, forecaster, vit: width of the residual stream', 1),
  layers: whole('--layers <n>', 'gpt, forecaster, vit: number of blocks', 1),
  heads: whole('--heads <n>', 'gpt, forecaster, vit: attention heads per block', 1),
  context: whole(
    '--context <n>',
    'text: longest sequence, in tokens; forecaster: steps that a forecast is made from',
    2,
  ),
  ffn: whole('--ffn <n>', 'gpt, forecaster, vit: hidden width of the feed-forward layers', 1),
  tiers: whole(
    '--tiers <n>',
    'gpt, pretrained: how often the width of feed-forward layers may be halved for smaller machines; 0: everybody trains the whole model',
    0,
    MOST_TIERS,
  ),
  tier: choice(
    '--tier <t>',
    'with --tiers: which tier this worker trains: 0 is the whole model, 1 half of the width, 2 a quarter; auto: what this machine can hold',
    ['auto', ...Array.from({ length: MOST_TIERS + 1 }, (_, tier) => `${tier}` as const)],
  ),
  helperRotation: whole(
    '--helper-rotation <n>',
    'with --tiers: rounds after which helpers take the next slice of the width; 0: the run has no helpers',
    0,
  ),
  helper: yesNo(
    '--helper',
    'with --tier and --helper-rotation: hold the whole model, and train a slice of its width in turn beside the tier',
  ),
  tierStrategy: choice(
    '--tier-strategy <name>',
    'pretrained, with --tiers: take a slice of `tiers export` if it is whole, else all of the base and cut it; the slice; or all',
    tierStrategies,
  ),
  hidden: sizes('--hidden <n,..>', 'mlp: widths of the hidden layers'),
  horizon: whole('--horizon <n>', 'forecaster: steps that are forecast', 1),
  patch: whole('--patch <n>', 'forecaster: steps of a patch; vit: pixels of its side', 1),
  forecastError: choice(
    '--forecast-error <name>',
    'forecaster: mean of squares, or the quantiles 0.1, 0.5 and 0.9 of every number',
    forecastErrors,
  ),
  scaling: choice(
    '--scaling <rule>',
    'forecaster: numbers by mean and spread of the training part alone, or each window by its own besides',
    scalings,
  ),
  pixels: whole('--pixels <n>', 'vit: side of the squares to which pictures are scaled', 1),
  tokens: choice('--tokens <kind>', 'text: how characters become tokens', ['chars', 'bytes']),
  shard: shard('--shard <k/n>', 'part of the data to train on, such as 2/4'),
  seed: whole('--seed <n>', 'random seed; must be the same for everyone'),
  rounds: whole('--rounds <n>', 'rounds to train in all', 1),
  innerSteps: whole('--inner-steps <n>', 'optimizer steps of each worker in a round (H)', 1),
  batchSize: whole('--batch-size <n>', 'examples per optimizer step', 1),
  optimizer: choice(
    '--optimizer <name>',
    'inner optimizer; muon takes hidden matrices and leaves the rest to adamw',
    ['adamw', 'muon', 'sgd'],
  ),
  localLearningRate: real(
    '--local-learning-rate <x>',
    'peak learning rate of the inner optimizer',
    rate,
  ),
  warmupSteps: whole('--warmup-steps <n>', 'steps over which the learning rate rises to its peak'),
  finalShare: real(
    '--final-share <x>',
    'share of the peak rate that is left at the end of the run (cosine)',
    {
      from: 0,
      to: 1,
    },
  ),
  weightDecay: real('--weight-decay <x>', 'weight decay of adamw and muon (decoupled)', {
    from: 0,
    to: 10,
  }),
  clipNorm: real('--clip-norm <x>', 'clip gradients to this global norm; 0 does not clip', {
    from: 0,
    to: 1e9,
  }),
  outerLearningRate: real(
    '--outer-learning-rate <x>',
    'learning rate of the outer step; 1 with momentum 0 is plain averaging',
    rate,
  ),
  momentum: real('--momentum <x>', 'Nesterov momentum of the outer step', {
    from: 0,
    to: 1,
    open: 'to',
  }),
} as const satisfies Record<string, Field<unknown>>;
