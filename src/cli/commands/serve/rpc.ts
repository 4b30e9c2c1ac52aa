/** JSON-RPC 2.0 over the table of methods, and the OpenRPC document that describes it. */
import {
  isJsonObject,
  type Json,
  type JsonObject,
  parseJson,
} from '../../../base/canonical-json.ts';
import { NostrainError } from '../../../base/errors.ts';
import type { Api } from './context.ts';
import type { ApiMethod } from './method.ts';
import { methods } from './methods.ts';

/** Codes of JSON-RPC 2.0, and one for everything that a method refuses. */
const codes = {
  parse: -32_700,
  request: -32_600,
  method: -32_601,
  params: -32_602,
  internal: -32_603,
  refused: -32_000,
} as const;

/** Maximum requests in one batch. */
const MOST_BATCH = 100;

const byName = new Map(methods.map((each) => [each.name, each]));

interface Reply {
  readonly jsonrpc: '2.0';
  readonly id: Json;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: object };
}

const failure = (id: Json, code: number, message: string, data?: object): Reply => ({
  jsonrpc: '2.0',
  id,
  error: { code, message, ...(data && { data }) },
});

/** A text of a client, and the share of the rate limit that its calls use. */
interface Incoming {
  readonly cost: number;
  /** Returns the answer as JSON text; undefined if all calls are notifications. */
  answer(api: Api): Promise<string | undefined>;
}

/** Reads one call or a batch of calls. Calls of a batch run one after the other, in order. */
export function readCalls(text: string): Incoming {
  const parsed = parseJson(text);
  if (!parsed.ok) return refused(codes.parse, parsed.issue.message);
  const isBatch = Array.isArray(parsed.value);
  const calls = [parsed.value].flat();
  if (calls.length === 0 || calls.length > MOST_BATCH) {
    return refused(codes.request, `a batch has 1 to ${MOST_BATCH} calls`);
  }
  return {
    cost: calls.reduce((sum: number, call) => sum + (methodIn(call)?.cost ?? 1), 0),
    async answer(api) {
      const replies: Reply[] = [];
      for (const call of calls) replies.push(...(await answerOne(call, api)));
      return replies.length === 0 ? undefined : JSON.stringify(isBatch ? replies : replies[0]);
    },
  };
}

const refused = (code: number, message: string): Incoming => ({
  cost: 1,
  answer: async () => JSON.stringify(failure(null, code, message)),
});

const methodIn = (call: Json): ApiMethod | undefined =>
  isJsonObject(call) ? byName.get(String(call.method)) : undefined;

const isId = (id: Json): boolean => id === null || ['string', 'number'].includes(typeof id);

/** Returns the reply to a call; none to a notification. */
async function answerOne(call: Json, api: Api): Promise<readonly Reply[]> {
  const { jsonrpc, method: name, id = null, params }: JsonObject = isJsonObject(call) ? call : {};
  if (jsonrpc !== '2.0' || typeof name !== 'string' || !isId(id)) {
    return [failure(null, codes.request, 'not a JSON-RPC 2.0 call')];
  }
  const method = methodIn(call);
  const reply: Reply =
    name === 'rpc.discover'
      ? { jsonrpc, id, result: openRpc }
      : method === undefined
        ? failure(id, codes.method, 'there is no such method', unknownMethod)
        : await callMethod(method, id, params, api);
  return Object.hasOwn(call as JsonObject, 'id') ? [reply] : [];
}

const unknownMethod = {
  type: 'api/method',
  hint: `the methods are ${[...byName.keys()].join(', ')}`,
};

async function callMethod(
  method: ApiMethod,
  id: Json,
  params: Json | undefined,
  api: Api,
): Promise<Reply> {
  try {
    return { jsonrpc: '2.0', id, result: await method.call(api, params) };
  } catch (error) {
    if (!(error instanceof NostrainError)) {
      api.onNotice(`internal error in ${method.name}, please report it: ${error}`);
      return failure(id, codes.internal, 'internal error; the log of the server says more');
    }
    const { code: type, message, hint, data } = error;
    const code = type.startsWith('settings/') ? codes.params : codes.refused;
    return failure(id, code, message, { ...data, type, hint });
  }
}

/** The OpenRPC document of the API. */
const openRpc = {
  openrpc: '1.3.2',
  info: { title: 'nostrain serve', version: '1' },
  methods: methods.map(({ name, summary, params, result, errors }) => ({
    name,
    summary,
    paramStructure: 'by-name',
    params: Object.entries(params).map(([param, { help, accepted, type, isOptional }]) => ({
      name: param,
      description: help,
      required: isOptional !== true,
      schema: { type, description: accepted },
    })),
    result: { name: 'result', schema: { type: 'object', properties: typesOf(result) } },
    errors: errors.map((type) => ({ code: codes.refused, message: type, data: { type } })),
  })),
};

function typesOf(members: Readonly<Record<string, string>>) {
  return Object.fromEntries(Object.entries(members).map(([name, type]) => [name, { type }]));
}
