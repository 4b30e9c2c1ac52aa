/**
 * The form of a method of the API: its parameters, result and errors. JSON-RPC, the OpenRPC document, `nostrain train`
 * and the reference page follow from a method; none of them knows a single one.
 */

import { isHex32 } from '../../../base/bytes.ts';
import { isJsonObject, type Json, type JsonObject } from '../../../base/canonical-json.ts';
import { decodeRunAddress } from '../../../certified/wire/runs.ts';
import { parseEvent, type SignedEvent } from '../../../network/event.ts';
import { dashed, type Reader, reading, row } from '../../../run/field.ts';
import { type Api, refusal } from './context.ts';

/** A parameter. On a command line, objects and lists are read from a file. */
interface Param<T> extends Reader<T> {
  readonly help: string;
  readonly type: 'string' | 'integer' | 'object' | 'array';
  readonly isOptional?: true;
}

type Params = Readonly<Record<string, Param<unknown>>>;
type ValuesOf<P extends Params> = { readonly [K in keyof P]: ReturnType<P[K]['read']> };

interface Method<P extends Params> {
  readonly name: string;
  /** Name as a command, `nostrain train VERB`, if it is not the name in kebab-case. */
  readonly verb?: string;
  readonly summary: string;
  readonly params: P;
  /** Members of the result, with their JSON types. */
  readonly result: Readonly<Record<string, string>>;
  /** Codes of the errors that only this method, or few, return. */
  readonly errors: readonly string[];
  /** Share of the rate limit that a call uses: 1 for an answer from memory. */
  readonly cost: number;
  run(api: Api, values: ValuesOf<P>): Promise<unknown>;
}

/** A method whose parameters are read from JSON. */
export interface ApiMethod extends Omit<Method<Params>, 'run'> {
  readonly verb: string;
  /** Throws a ConfigError (`settings/…`) for parameters of another form, and the errors of the method. */
  call(api: Api, params: Json | undefined): Promise<unknown>;
}

export const method = <P extends Params>({ run, ...declared }: Method<P>): ApiMethod => ({
  verb: dashed(declared.name).slice(2),
  ...declared,
  call: async (api, params) => run(api, readParams(declared.params, params)),
});

function readParams<P extends Params>(params: P, json: Json = {}): ValuesOf<P> {
  const hint = `the parameters are ${Object.keys(params).join(', ') || 'none'}`;
  if (!isJsonObject(json)) throw refusal('settings/type', 'params is not an object', hint);
  const unknown = Object.keys(json).find((name) => !Object.hasOwn(params, name));
  if (unknown !== undefined) {
    throw refusal('settings/unknown', `${unknown.slice(0, 100)} is not a parameter`, hint);
  }
  const values = Object.entries(params).map(([name, { help, read, isOptional }]) => {
    if (json[name] !== undefined) return [name, read(json[name], name)];
    if (isOptional) return [name, undefined];
    throw refusal('settings/missing', `the parameter ${name} is missing`, help);
  });
  return Object.fromEntries(values);
}

export const param = <T>(type: Param<T>['type'], help: string, reader: Reader<T>): Param<T> => ({
  ...row(help, reader),
  type,
});

export const optional = <T>(required: Param<T>): Param<T | undefined> & { isOptional: true } => ({
  ...required,
  isOptional: true,
});

export const runParam = param(
  'string',
  'the run',
  reading('a run id (64 hex digits) or an address (naddr1…)', (value) => {
    if (typeof value !== 'string') return undefined;
    if (isHex32(value)) return value;
    const address = value.startsWith('naddr1') ? decodeRunAddress(value) : undefined;
    return address?.ok ? address.value.run : undefined;
  }),
);

/** A JSON object whose members the method checks. */
export const objectParam = (help: string): Param<JsonObject> =>
  param(
    'object',
    help,
    reading('a JSON object', (value) =>
      isJsonObject(value as Json) ? (value as JsonObject) : undefined,
    ),
  );

const eventOf = (value: unknown): SignedEvent | undefined => {
  const parsed = parseEvent(value);
  return parsed.ok ? parsed.value : undefined;
};

/** A finished event, signed by the key that acts. Its kind and signature are checked later. */
export const eventParam = (help: string): Param<SignedEvent> =>
  param('object', help, reading('a signed Nostr event', eventOf));

/** Maximum number of chunk events in one call: 64 are 4 MB, as much as a request may have. */
const MOST_EVENTS = 64;

/** Errors of every method that takes an event. */
export const eventErrors = ['event/WrongKind', 'event/BadSignature', 'event/Refused'];

export const eventsParam = (help: string): Param<readonly SignedEvent[]> =>
  param(
    'array',
    help,
    reading(`a list of at most ${MOST_EVENTS} signed Nostr events`, (value) => {
      if (!Array.isArray(value) || value.length > MOST_EVENTS) return undefined;
      const events = value.flatMap((each) => eventOf(each) ?? []);
      return events.length === value.length ? events : undefined;
    }),
  );
