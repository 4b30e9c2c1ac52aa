/**
 * `nostrain serve` answers the methods of the API over HTTP. `nostrain train VERB` calls one from the command line.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { readJsonFile } from '../../../node/files/documents.ts';
import { createSecretKey, homeSigner } from '../../../node/files/keys.ts';
import { defineCommand, defineGroup } from '../../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../../terminal/connection.ts';
import {
  type Flag,
  type FlagValues,
  parsed,
  required,
  roundFlag,
  several,
  text,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { beaconSource } from '../../shared/beacon.ts';
import { endpointFlags } from '../../shared/endpoints.ts';
import { keyFlags } from '../../shared/signed-document.ts';
import { withRelays } from '../../shared/with-relays.ts';
import { type Api, FollowedRuns } from './context.ts';
import type { ApiMethod } from './method.ts';
import { methods } from './methods.ts';
import { serveApi } from './server.ts';

const apiFlags = {
  relay: required(several('<url>', 'relay of the runs, repeatable')),
  ...keyFlags,
  ...connectionFlags,
  ...endpointFlags,
  corpus: text('<file>', 'text from which steps are recomputed (default: the standard corpus)'),
  base: text('<path>', 'published model that a run starts from, to recompute its steps'),
};

/** Opens what the methods work with, runs the work, and closes it. */
async function withApi<T>(
  flags: FlagValues<typeof apiFlags>,
  signal: AbortSignal,
  work: (api: Api) => Promise<T>,
): Promise<T> {
  const signer = await homeSigner(flags, writeNote);
  const reach = { connection: connectionOf(flags), signer, signal };
  return withRelays(flags.relay, reach, (session) =>
    work({
      ...session,
      signer,
      reach: { ...reach, relays: flags.relay },
      runs: new FollowedRuns({ ...session, beacon: (spec) => beaconSource(spec, flags) }),
      sealedFolder: join(dataHome(), 'sealed'),
      files: flags,
      onNotice: writeNote,
    }),
  );
}

const LISTEN = '127.0.0.1:8791';

export const serve = defineCommand({
  name: 'serve',
  help: 'let other programs call the methods of a run (JSON-RPC)',
  flags: {
    listen: withDefault(
      parsed('<host:port>', 'address to listen on; port 0 takes any free port', listenAt),
      listenAt(LISTEN, '--listen'),
      LISTEN,
    ),
    tokenFile: required(text('<file>', 'file with the token of clients; created if it is missing')),
    ...apiFlags,
  },
  async run(flags, { signal }) {
    const token = await tokenIn(flags.tokenFile);
    const { host } = flags.listen;
    if (!/^(?:127\.|localhost$|::1$)/.test(host)) {
      writeNote(`${host} is not this machine alone: token and answers travel unencrypted`);
    }
    await withApi(flags, signal, async (api) => {
      const server = await serveApi(api, { ...flags.listen, token });
      writeOut(`${server.url}\n`);
      await new Promise((resolve) => api.signal.addEventListener('abort', resolve));
      await server.close();
    });
  },
});

function listenAt(typed: string, flag: string): { readonly host: string; readonly port: number } {
  const [, host = '', digits] = /^\[?([^[\]]+?)\]?:(\d{1,5})$/.exec(typed) ?? [];
  const port = Number(digits);
  if (host !== '' && port < 65_536) return { host, port };
  throw new ConfigError('flag/value', `${flag} is ${JSON.stringify(typed)}`, {
    hint: `write an address and a port, such as ${LISTEN}`,
  });
}

/** Shortest token: what a person makes up can be guessed. */
const LEAST_TOKEN_LETTERS = 32;

/** Returns the token of a file, and creates the file with a random token if it does not exist. */
async function tokenIn(file: string): Promise<string> {
  const created = writeFile(file, `${toHex(createSecretKey())}\n`, { mode: 0o600, flag: 'wx' });
  await created.then(
    () => writeNote(`created a token in ${file}`),
    () => undefined,
  );
  const token = (await readFile(file, 'utf8').catch(() => '')).trim();
  if (/^[!-~]+$/.test(token) && token.length >= LEAST_TOKEN_LETTERS) return token;
  throw new ConfigError('serve/token', `${file} holds no token of ${LEAST_TOKEN_LETTERS} letters`, {
    hint: 'name a file that does not exist to get a new token',
  });
}

const verbOf = (method: ApiMethod) => {
  const params = Object.entries(method.params);
  const flags: object = Object.fromEntries(
    params.map(([name, each]) => [name, flagOf(name, each)]),
  );
  return defineCommand({
    name: method.verb,
    help: method.summary,
    flags: { ...flags, ...apiFlags },
    async run(typed, { signal }) {
      const values = await Promise.all(
        params.map(async ([name, { type }]) => {
          const value = (typed as Readonly<Record<string, unknown>>)[name];
          const isFile = value !== undefined && (type === 'object' || type === 'array');
          return [name, isFile ? await jsonFile(String(value)) : value];
        }),
      );
      await withApi(typed, signal, async (api) =>
        writeOut(asJson(await method.call(api, Object.fromEntries(values)))),
      );
    },
  });
};

export const train = defineGroup(
  'train',
  'call one method of the API; prints its result as JSON',
  methods.map(verbOf),
);

function flagOf(name: string, { type, help, isOptional }: ApiMethod['params'][string]) {
  const value = { string: '<text>', integer: '<n>', object: '<file>', array: '<file>' }[type];
  const words = type === 'object' || type === 'array' ? `JSON file: ${help}` : help;
  const flag: Flag<unknown> = name === 'round' ? roundFlag('<n>', 'round') : text(value, words);
  return isOptional ? flag : required(flag);
}

const jsonFile = (file: string) =>
  readJsonFile(file, { code: 'flag/file', what: 'the parameter', hint: 'name a JSON file' });
