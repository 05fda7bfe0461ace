/**
 * Says what an answer is that is too large to be kept: a result of the tool, and whether that tells of a failure. Its
 * bytes pass once, and only a few names and values of it are held.
 *
 * It does not own how much is read (`activities/egress/fetch.ts`), or what comes of it (`classify-result.ts`).
 * 1. A result is claimed only of a whole answer in JSON-RPC with the id of the request (INV-X2). Nothing is known of any
 *    other: an error, a question of the server, a task, a body that breaks off.
 * 2. Brackets, strings, and the members of the message and of its result are read. What stands deeper is not checked:
 *    a tool that has run has run, whatever is wrong with its result.
 */
import { isFields } from '../../domain/shapes/inputs.ts';
import type { Skim } from '../egress/fetch.ts';

/** What a result tells of its call. */
export type LargeAnswer = 'success' | 'failure';

/** @param tell called at the end of the body, with undefined where it says nothing that is known */
export function skimAnswer(request: unknown, tell: (says: LargeAnswer | undefined) => void): Skim {
  const answer = new SkimmedAnswer();
  return { read: (chunk) => answer.read(chunk), ended: () => tell(answer.says(idIn(request))) };
}

function idIn(request: unknown): unknown {
  const message: unknown = typeof request === 'string' ? JSON.parse(request) : undefined;
  return isFields(message) ? message['id'] : undefined;
}

const MOST_NESTED = 1_000;
/** Members of the message and its result together: each is parsed. */
const MOST_MEMBERS = 1_000;
/** Bytes of a name or value, as it is written. The longest that counts has 10 characters, of 6 bytes at most. */
const MOST_KEPT = 64;

/** All that an answer with a result has. */
const OF_MESSAGE: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'result']);
const OF_RESULT: ReadonlySet<string> = new Set(['resultType', 'isError', 'task', 'content']);

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [COLON, OBJECT, LIST] = [0x3a, 0x7b, 0x5b];
/** Both brackets are closed by the character that is two further. */
const CLOSING = 2;

const [BLANK, MARK] = [1, 2];
const KINDS = new Uint8Array(256);
for (const byte of [0x20, 0x09, 0x0a, 0x0d]) KINDS[byte] = BLANK;
for (const byte of [QUOTE, OBJECT, LIST, OBJECT + CLOSING, LIST + CLOSING]) KINDS[byte] = MARK;

const AN_OBJECT = Symbol('object');
const A_LIST = Symbol('list');

class SkimmedAnswer {
  readonly #message = new Map<string, unknown>();
  readonly #result = new Map<string, unknown>();
  /** Closing brackets of what is open. */
  readonly #open: number[] = [];
  #isBegun = false;
  #isUnread = false;
  #isInResult = false;
  #isInString = false;
  #isEscaped = false;
  #isNameNext = false;
  /** False between brackets within which nothing counts but brackets and strings. */
  #isNear = true;
  #memberCount = 0;
  /** Name of the member whose value comes. */
  #name: string | undefined;
  /** Bytes of the string or word that is read, where members are. */
  #kept: number[] = [];

  /** Returns false once nothing can be known any more. */
  read(chunk: Uint8Array): boolean {
    for (let at = 0; at < chunk.length && !this.#isUnread; at += 1) {
      if (this.#isInString) at = this.#readString(chunk, at);
      else {
        // Sound: the index is within the array.
        const byte = chunk[at] as number;
        if (this.#isNear || KINDS[byte] === MARK) this.#readByte(byte);
      }
    }
    return !this.#isUnread;
  }

  says(id: unknown): LargeAnswer | undefined {
    const [message, result] = [this.#message, this.#result];
    const isWhole = this.#isBegun && !this.#isUnread && this.#open.length === 0;
    const isResult = message.get('jsonrpc') === '2.0' && message.get('result') === AN_OBJECT;
    if (!isWhole || !isResult || id === undefined || message.get('id') !== id) return undefined;
    // An answer that was read is judged alike (`classify-result.ts`, `legacy-2025/begun-task.ts`).
    const { isError = false, resultType = 'complete' } = Object.fromEntries(result);
    if (resultType !== 'complete' || (result.has('task') && !result.has('content'))) return undefined;
    return isError === false ? 'success' : 'failure';
  }

  /** The members that stand where the reading is. */
  get #members(): Map<string, unknown> | undefined {
    if (this.#open.length === 1) return this.#message;
    return this.#open.length === 2 && this.#isInResult ? this.#result : undefined;
  }

  /** Returns the index of the last byte that was read. */
  #readString(chunk: Uint8Array, from: number): number {
    const isKept = this.#members !== undefined;
    let isEscaped = this.#isEscaped;
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at] as number;
      if (!isEscaped && byte === QUOTE) {
        this.#isInString = false;
        this.#isEscaped = false;
        if (isKept) this.#stringEnds();
        return at;
      }
      isEscaped = !isEscaped && byte === BACKSLASH;
      if (isKept && this.#kept.length <= MOST_KEPT) this.#kept.push(byte);
    }
    this.#isEscaped = isEscaped;
    return chunk.length;
  }

  #readByte(byte: number): void {
    if (KINDS[byte] === BLANK) return this.#wordEnds();
    if (byte === OBJECT || byte === LIST) return this.#opens(byte);
    if (this.#open.length === 0) return this.#fail();
    if (byte === OBJECT + CLOSING || byte === LIST + CLOSING) return this.#closes(byte);
    if (byte === QUOTE) {
      this.#wordEnds();
      this.#isInString = true;
    } else if (byte === COMMA) {
      this.#wordEnds();
      this.#isNameNext = true;
      this.#name = undefined;
    } else if (byte !== COLON && this.#kept.length <= MOST_KEPT) this.#kept.push(byte);
  }

  #opens(byte: number): void {
    this.#wordEnds();
    if (this.#open.length === 0 && (this.#isBegun || byte === LIST)) return this.#fail();
    this.#isBegun = true;
    if (this.#open.length === 1) {
      this.#isInResult = this.#name === 'result';
      if (this.#isInResult) this.#result.clear();
    }
    this.#valueIs(byte === OBJECT ? AN_OBJECT : A_LIST);
    this.#isNameNext = true;
    if (this.#open.push(byte + CLOSING) > MOST_NESTED) this.#fail();
    this.#isNear = this.#members !== undefined;
  }

  #closes(byte: number): void {
    this.#wordEnds();
    this.#isNameNext = false;
    this.#name = undefined;
    if (this.#open.pop() !== byte) this.#fail();
    this.#isNear = this.#open.length === 0 || this.#members !== undefined;
  }

  #stringEnds(): void {
    const text = this.#taken((written) => JSON.parse(`"${written}"`));
    if (!this.#isNameNext) return this.#valueIs(text);
    this.#isNameNext = false;
    this.#name = typeof text === 'string' ? text : undefined;
  }

  #wordEnds(): void {
    if (this.#kept.length > 0) this.#valueIs(this.#taken((written) => JSON.parse(written)));
  }

  /** Returns '' for what is too long to count. */
  #taken(read: (written: string) => unknown): unknown {
    const kept = this.#kept;
    this.#kept = [];
    if (kept.length > MOST_KEPT) return '';
    try {
      return read(Buffer.from(kept).toString('utf8'));
    } catch {
      return this.#fail();
    }
  }

  #valueIs(value: unknown): void {
    const members = this.#members;
    if (members === undefined) return;
    const name = this.#name;
    this.#name = undefined;
    this.#memberCount += 1;
    const isStrange = name === undefined || (members === this.#message && !OF_MESSAGE.has(name));
    if (isStrange || this.#memberCount > MOST_MEMBERS) return this.#fail();
    if (members === this.#message || OF_RESULT.has(name)) members.set(name, value);
  }

  #fail(): undefined {
    this.#isUnread = true;
  }
}
