/**
 * A look over a pickle before any of it is done (opcodes of PEP 307 and PEP 3154): only those that states need, every
 * length inside the file. The rest, with which pickles do more than hold data, is refused by name.
 */
import { type Issue, refuse } from '../../base/result.ts';

/** Bytes of the argument; or what comes before it: its length in 1 or 4 bytes; or two lines. */
type Argument = number | 'length1' | 'length4' | 'lines';

interface Opcode {
  readonly name: string;
  /** Absent where the opcode is not read. */
  readonly argument?: Argument;
}

const opcodes = new Map<number, Opcode>();

/** Opcodes by code and name: `K BININT1`. */
function list(text: string, argument?: Argument): void {
  for (const pair of text.split(',')) {
    const [code, name] = pair.trim().split(' ');
    const byte = code!.length === 1 ? code!.charCodeAt(0) : Number.parseInt(code!, 16);
    opcodes.set(byte, { name: name!, ...(argument !== undefined && { argument }) });
  }
}

list('( MARK, . STOP, 0 POP, N NONE, 88 NEWTRUE, 89 NEWFALSE, 94 MEMOIZE', 0);
list(
  ') EMPTY_TUPLE, t TUPLE, 85 TUPLE1, 86 TUPLE2, 87 TUPLE3, ] EMPTY_LIST, a APPEND, e APPENDS',
  0,
);
list('} EMPTY_DICT, s SETITEM, u SETITEMS, R REDUCE, 81 NEWOBJ, b BUILD, Q BINPERSID', 0);
list('93 STACK_GLOBAL', 0);
list('80 PROTO, K BININT1, h BINGET, q BINPUT', 1);
list('M BININT2', 2);
list('J BININT, j LONG_BINGET, r LONG_BINPUT', 4);
list('G BINFLOAT, 95 FRAME', 8);
list('8a LONG1, U SHORT_BINSTRING, C SHORT_BINBYTES, 8c SHORT_BINUNICODE', 'length1');
list('T BINSTRING, B BINBYTES, X BINUNICODE', 'length4');
list('c GLOBAL', 'lines');
list('1 POP_MARK, 2 DUP, F FLOAT, I INT, L LONG, P PERSID, S STRING, V UNICODE, d DICT, g GET');
list('i INST, l LIST, o OBJ, p PUT, 82 EXT1, 83 EXT2, 84 EXT4, 8b LONG4, 8d BINUNICODE8');
list('8e BINBYTES8, 8f EMPTY_SET, 90 ADDITEMS, 91 FROZENSET, 92 NEWOBJ_EX, 96 BYTEARRAY8');
list('97 NEXT_BUFFER, 98 READONLY_BUFFER');

/** Integers of more bytes do not fit a double; nothing in a state needs them. */
const MAX_INTEGER_BYTES = 6;

/** Why the pickle must not be read; undefined when it may be. */
export function findForbiddenOpcode(bytes: Uint8Array): Issue | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const opcode = opcodes.get(bytes[at]!);
    const name = opcode?.name ?? `0x${bytes[at]!.toString(16)}`;
    const where = `byte ${at} of the pickle`;
    if (opcode?.argument === undefined) {
      return issue('pickle/opcode', where, `opcode ${name} is not read from states`);
    }
    if (name === 'STOP') return undefined;
    const next = endOf(view, at + 1, opcode.argument);
    if (next === undefined || next > bytes.length) break;
    if (name === 'LONG1' && next - at - 2 > MAX_INTEGER_BYTES) {
      return issue('pickle/integer', where, `opcode LONG1 holds ${next - at - 2} bytes`);
    }
    at = next;
  }
  return issue('pickle/truncated', 'the pickle', 'ends in the middle');
}

/** Where the argument that starts at `at` ends. */
function endOf(view: DataView, at: number, argument: Argument): number | undefined {
  if (typeof argument === 'number') return at + argument;
  if (argument === 'length1' && at + 1 <= view.byteLength) return at + 1 + view.getUint8(at);
  if (argument === 'length4' && at + 4 <= view.byteLength) return at + 4 + view.getUint32(at, true);
  if (argument !== 'lines') return undefined;
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const first = bytes.indexOf(10, at);
  const second = first < 0 ? -1 : bytes.indexOf(10, first + 1);
  return second < 0 ? undefined : second + 1;
}

const issue = (code: string, at: string, message: string): Issue => refuse(code, at, message).issue;
