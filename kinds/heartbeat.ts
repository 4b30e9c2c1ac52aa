/** Heartbeat (33334, addressable): a worker says it is alive, in which round, and on which bits. */
import { empty } from './_content.ts';
import { defineKind } from './_define.ts';
import {
  address,
  count,
  flag,
  hex32,
  index,
  integer,
  list,
  many,
  nostrain,
  one,
  optional,
  run,
  scope,
  word,
  worker,
} from './_tags.ts';

const DAY = 86_400;

/** 33334: a worker is alive, in which round, and on which bits. */
export const heartbeat = defineKind({
  kind: 33334,
  name: 'heartbeat',
  summary: 'a worker is alive, in which round, and on which bits',
  sent: 'at each round start and then at the advertised interval; a newer one replaces it',
  tags: {
    slot: address('one heartbeat per worker', 'run:<run>:worker:<worker>'),
    nostrain,
    run,
    worker,
    round: one('round', index, 'round the worker is in'),
    interval: one('heartbeat', integer(1, DAY), 'seconds until the next one is due'),
    examples: optional('examples', count, 'training examples the worker has'),
    capabilities: many('capability', word, 'what the worker can do; informative'),
    relays: many('relay', word, 'where else to find the worker; informative'),
    model: optional('model', hex32, 'digest of the state the worker starts the round from'),
    cohort: list('cohort', hex32, 'workers whose contributions made that state'),
    leaving: flag('status', 'leaving', 'in the last one a worker sends'),
    scope: scope('what relays index', '<run>'),
  },
  content: empty,
});
