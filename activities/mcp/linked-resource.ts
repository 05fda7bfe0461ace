/**
 * Reads a linked resource by the protocol's `resources/read`, of 2025-11-25 and 2026-07-28.
 *
 * Pure. It owns what the answers mean. It does not own the sending (`tool-call.ts`), nor what becomes of content
 * (`classify-result.ts`).
 * 1. A read has no effect: whatever error a server answers, nothing has happened that could be in doubt.
 */
import { READ_RESOURCE } from '../../contracts/names.ts';
import { type Names, refused } from './classify-failure.ts';
import type { CallEnding, ToolCall } from './port.ts';
import type { RawAnswer } from './transport.ts';

/** 2025-11-25 says -32002; 2026-07-28, and both SDKs before it, -32602. */
const NO_SUCH_RESOURCE: ReadonlySet<number> = new Set([-32_002, -32_602]);
const MISSING_CAPABILITY = -32_021;

export function isRead({ definition }: Pick<ToolCall, 'definition'>): boolean {
  return definition.name === READ_RESOURCE;
}

/** Returns the URI to read; undefined for a call of a tool. */
export function uriOf({
  definition,
  arguments: { uri },
}: Pick<ToolCall, 'definition' | 'arguments'>): string | undefined {
  if (!isRead({ definition })) return undefined;
  if (typeof uri !== 'string') throw new Error('a read without a URI');
  return uri;
}

/** Puts contents into the form of a tool's result, so that they take its path: each is an embedded resource. */
export function contentsAsResult({ contents, ...rest }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  // Sound: Array.isArray gives any[]; nothing is assumed of an item until it is checked (`content.ts`).
  const list = Array.isArray(contents) ? (contents as readonly unknown[]) : undefined;
  const { resultType } = rest;
  return {
    ...(resultType === undefined ? {} : { resultType }),
    ...(list === undefined ? {} : { content: list.map((resource) => ({ type: 'resource', resource })) }),
  };
}

/**
 * Classifies a read that the server answered with an error.
 * @param noInput why the server could not ask people, if it could not
 */
export function endingOfRead(
  { code, message }: Extract<RawAnswer, { kind: 'error' }>,
  names: Names,
  noInput?: string,
): CallEnding {
  const said = `JSON-RPC error ${code}: ${names.quote(message)}`;
  if (NO_SUCH_RESOURCE.has(code)) {
    const text = `Server "${names.server}" has no such resource, or not any more; nothing was read (${said}).`;
    return { kind: 'refused', code: 'RESOURCE_UNKNOWN', message: text };
  }
  const why = code === MISSING_CAPABILITY && noInput !== undefined ? ` (${noInput})` : '';
  return refused(names, { code: 'TOOL_REFUSED', reason: `${said}${why}` });
}
