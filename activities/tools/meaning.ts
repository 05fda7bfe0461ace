/**
 * What an answer to a `tools/call` means for the call, whoever asked for it: the worker that sent it, or one that came after; and what
 * a task came to.
 *
 * Owns what is scrubbed of it, and whether the tool ran. Does not own results (`result.ts`), nor calls that got no answer
 * (`ending.ts`).
 *
 * 1. A call that ran is reported as executed, whatever its result looks like.
 */
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import { endingOfError, halfway, isV1UnknownTool, type Names, vanished } from './ending.ts';
import { contentsAsResult, endingOfRead } from './linked-resource.ts';
import type { CallEnding, ServerConnection, ToolCall } from './port.ts';
import { toolResultOf } from './result.ts';
import { createScrubber, type Scrubber } from './scrub.ts';
import type { RawAnswer } from './transport.ts';

const MAX_QUOTE_CHARACTERS = 300;

export interface MeaningParts {
  readonly artifacts: ArtifactStore;
  readonly scrub: Scrubber;
  readonly names: Names;
  /** The server had asked something in the middle of the call, so that no answer says that it did not run. */
  readonly asked?: boolean | undefined;
}

/** What of a call its answer is measured by. */
export type Answered = Pick<ToolCall, 'resultBytes' | 'sharedBy' | 'signal' | 'noInput'> & {
  readonly definition: { readonly outputSchema?: JsonObject | undefined };
};

export async function meaningOf(answer: RawAnswer, call: Answered, parts: MeaningParts): Promise<CallEnding> {
  const reads = parts.names.reads === true;
  if (answer.kind === 'error') {
    const { names, asked } = parts;
    return reads ? endingOfRead(answer, names, call.noInput) : endingOfError(answer, names, call.noInput, asked);
  }
  return await executed(reads ? contentsAsResult(answer.result) : answer.result, call, parts);
}

/** @param more secret as the token is, and echoed as it is: what the server gave for this call */
export function scrubberFor(
  { secrets, accessToken, renewal }: ServerConnection,
  more: readonly string[] = [],
): Scrubber {
  const tokens = accessToken === undefined ? [] : [accessToken];
  return createScrubber([...secrets, ...tokens, ...(renewal?.secrets() ?? []), ...more]);
}

/** What a result means, of a call or of what became of one. */
export async function executed(
  raw: Readonly<Record<string, unknown>>,
  { definition, resultBytes, sharedBy, signal, noInput }: Answered,
  { artifacts, scrub, names, asked = false }: MeaningParts,
): Promise<CallEnding> {
  const { resultType } = raw;
  // Absent before 2026-07-28.
  if (resultType !== undefined && resultType !== 'complete')
    return halfway(names, typeof resultType === 'string' ? resultType : typeof resultType, noInput);
  const { outputSchema } = definition;
  const result = await toolResultOf(raw, {
    artifacts,
    scrub,
    signal,
    maxBytes: resultBytes,
    ...(sharedBy === undefined ? {} : { sharedBy }),
    ...(outputSchema === undefined ? {} : { outputSchema }),
  });
  // Absent means false (MCP server/tools); anything odd is no success.
  const isError = raw['isError'] !== undefined && raw['isError'] !== false;
  const [only, ...others] = result.content;
  if (!asked && isError && others.length === 0 && only?.type === 'text' && isV1UnknownTool(only.text, names.tool))
    return vanished(names);
  return { kind: 'executed', isError, result };
}

/** The tool has run: what is one answer, and with status 200, can only be a result where it is larger than a session reads. */
export function oversized(): CallEnding {
  const note = 'the result is larger than this service reads, and is lost';
  return {
    kind: 'executed',
    isError: false,
    result: { content: [{ type: 'text', text: `[The tool has run; ${note}.]` }], warnings: [note] },
  };
}

/** Words of a server, fit to stand in a message of ours: scrubbed, on one line, bounded. */
export function quoted(scrub: Scrubber, text: string): string {
  const line = scrub
    .text(text)
    .slice(0, 10 * MAX_QUOTE_CHARACTERS)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
  return line.length > MAX_QUOTE_CHARACTERS ? `${line.slice(0, MAX_QUOTE_CHARACTERS)}…` : line;
}
