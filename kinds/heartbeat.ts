/** Heartbeat (33334, addressable): a worker reports that it is alive, its round, and the digest of its state. */
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

/** Longest interval between heartbeats: one day, in seconds. */
const DAY = 86_400;

/** 33334: a worker reports that it is alive, its round, and the digest of its state. */
export const heartbeat = defineKind({
  kind: 33334,
  name: 'heartbeat',
  summary: 'a worker reports that it is alive, its round, and the digest of its state',
  sent: 'at each round start and then at the advertised interval; a newer one replaces it',
  tags: {
    slot: address('one heartbeat per worker', 'run:<run>:worker:<worker>'),
    nostrain,
    run,
    worker,
    round: one('round', index, 'current round of the worker'),
    interval: one('heartbeat', integer(1, DAY), 'seconds until the next heartbeat is due'),
    examples: optional('examples', count, 'number of training examples the worker has'),
    capabilities: many('capability', word, 'abilities of the worker; informative'),
    relays: many('relay', word, 'other relays of the worker; informative'),
    model: optional('model', hex32, 'digest of the state from which the worker starts the round'),
    cohort: list('cohort', hex32, 'workers whose contributions led to that state'),
    leaving: flag('status', 'leaving', 'present in the last heartbeat of a worker'),
    scope: scope('for relays to index', '<run>'),
  },
  content: empty,
});
