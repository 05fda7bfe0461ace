/**
 * Makes of what became of a call the result that an MCP client gets.
 *
 * 1. A model reads in words what happened, and programs read it in `_meta`: no client has to know of this gate.
 * 2. A call that waits is a success in the words of the protocol, and says whether it may have run. A call that ended
 *    without a result of its tool is an error that the model can read (INV-X2).
 */
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { jsonOf } from '../../client/ledger/files.ts';
import type { ArtifactReader } from '../../client/ledger/ledger.ts';
import { ResultPart, type ToolResult } from '../../contracts/schemas/call.ts';
import { defined } from '../../contracts/defined.ts';
import { type ArtifactRef, JsonObject, type JsonValue } from '../../contracts/schemas/json.ts';
import type { PauseKind } from '../../contracts/schemas/request.ts';
import type { CallAnswer } from '../../contracts/schemas/run-state.ts';
import { MOST_LEVELS } from '../../contracts/payload-converter.ts';
import { TOO_DEEP } from '../../contracts/schemas/parse.ts';
import {
  changedNumber,
  changedNumberText,
  isTooDeep,
  namesPrototype,
  PROTOTYPE_TEXT,
  repeatedMember,
  repeatedMemberText,
} from '../../domain/text/written-json.ts';
import { resultOf } from '../../domain/views/model-text.ts';

/** Key in `_meta` of results: what became of a call. */
export const CALL_META = 'countersign/call';
/** Key in `_meta` of a call: the reference of an earlier call whose outcome is wanted. */
export const REFERENCE_META = 'countersign/reference';
export const RESULT_TOOL = 'countersign_result';

/** What people are asked of a call; `again`: whether one that was sent before, or has begun, is sent once more. */
export type Asked = 'consent' | 'again' | PauseKind;

/** What a client reads of a call that waits. Only of a call that nobody has sent does it say that it has not run. */
const WAITS: Readonly<Record<Asked, string>> = {
  consent: 'This call has not run: it waits until a person has approved it.',
  again: 'This call was sent before, and may have run: it waits until a person says whether it is sent again.',
  outcome:
    'It is not known whether this call has run: its answer was lost, and it waits until a person says what became of it.',
  input: 'This call has begun, and may have had effects: it waits until a person answers what its server asks.',
  authorization: 'This call waits: its server wants another authorization, which a person must give.',
};

export type Pending =
  | { readonly reference: string; readonly status: 'running' }
  | {
      readonly reference: string;
      readonly status: 'waiting';
      readonly asked: Asked;
      readonly page?: string | undefined;
      readonly deadline: string;
    };

const ASK_AGAIN_SECONDS = 60;

export function pendingReply(pending: Pending): CallToolResult {
  const { reference } = pending;
  const text = `${pendingWords(pending)}\nNothing is to be done but to wait. To learn the outcome, make exactly this call again in ${ASK_AGAIN_SECONDS} seconds or later, or call ${RESULT_TOOL} with reference "${reference}". Neither runs the call a second time.`;
  const meta = { ...pending, askAgainSeconds: ASK_AGAIN_SECONDS };
  return { content: [{ type: 'text', text }], _meta: { [CALL_META]: meta } };
}

export function pendingWords(pending: Pending): string {
  if (pending.status === 'running') return 'This call is under way, and its outcome is not known yet.';
  const { asked, page, deadline } = pending;
  const where = page === undefined ? [] : [`People decide here: ${page}`];
  return [WAITS[asked], ...where, `They may decide until ${deadline}.`].join('\n');
}

/** Reply to a call that cannot be made or found, in words for the model. */
export function refusedReply(code: string, message: string, reference?: string): CallToolResult {
  const meta = { status: 'refused', code, ...defined({ reference }) };
  return errorReply(`Not executed (${code}): ${message}`, meta);
}

/** Reply to a call whose run has ended without an outcome, or is no longer on record. */
export function unknownReply(code: string, message: string, reference: string): CallToolResult {
  const text = `It is not known whether this call was executed (${code}): ${message} Do not repeat it; first find out by other means whether it took effect.`;
  return errorReply(text, { reference, status: 'unknown', code });
}

/** Reply to a call that never ran, since its run ended before. */
export function withdrawnReply(code: string, why: string, reference: string): CallToolResult {
  return errorReply(`Not executed (${code}): ${why} before it ran.`, { reference, status: 'cancelled', code });
}

function errorReply(text: string, meta: object): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true, _meta: { [CALL_META]: meta } };
}

export async function endedReply(
  reference: string,
  answer: CallAnswer,
  artifacts: ArtifactReader | undefined,
): Promise<CallToolResult> {
  const { outcome, edited } = answer;
  const code = 'code' in outcome ? outcome.code : undefined;
  const meta = { [CALL_META]: { reference, status: outcome.kind, ...defined({ code, edited }) } };
  const isOwn = (outcome.kind === 'succeeded' || outcome.kind === 'failed') && outcome.recordedBy === undefined;
  const own = isOwn ? outcome.result : undefined;
  if (own === undefined) {
    const { text, isError } = resultOf(answer);
    return { content: [{ type: 'text', text }], isError, _meta: meta };
  }
  const reader = bounded(artifacts);
  const { content, structured } = await wholeOf(own, reader);
  const blocks: ContentBlock[] = [];
  // One after another, so that together they stay within the bound.
  for (const part of content) blocks.push(await blockOf(part, reader));
  const structuredContent = JsonObject.safeParse(structured).data;
  return {
    content: [...(edited === undefined ? [] : [editedNote(edited)]), ...blocks],
    ...defined({ structuredContent }),
    ...(outcome.kind === 'failed' && { isError: true }),
    _meta: meta,
  };
}

/** What a reply says of its call, for counting. */
export function statusOf({ _meta: meta }: CallToolResult): string {
  const told = z.object({ status: z.string() }).safeParse(meta?.[CALL_META]);
  return told.data?.status ?? 'other';
}

function editedNote({ by, arguments: sent }: NonNullable<CallAnswer['edited']>): ContentBlock {
  const text = `${by} approved this call with other arguments than you proposed: ${JSON.stringify(sent)} What follows is about the call with these arguments. Do not repeat it with yours.`;
  return { type: 'text', text };
}

/** Bytes of artifacts in one reply; what is beyond stays a preview, or its name. */
const MOST_BYTES = 8_388_608;

type Reader = (ref: ArtifactRef) => Promise<Uint8Array | undefined>;

function bounded(artifacts: ArtifactReader | undefined): Reader {
  let left = MOST_BYTES;
  return async (ref) => {
    if (artifacts === undefined || ref.bytes > left) return undefined;
    left -= ref.bytes;
    return await artifacts.get(ref).catch(() => undefined);
  };
}

const Whole = z.object({ content: z.array(ResultPart), structured: z.json().optional() });

/** Reads the whole of a result of which the run keeps a preview; returns the preview if it cannot be read. */
async function wholeOf(
  { content, structured, full }: ToolResult,
  read: Reader,
): Promise<{ readonly content: readonly ResultPart[]; readonly structured?: JsonValue | undefined }> {
  const bytes = full === undefined ? undefined : await read(full);
  const whole = bytes === undefined ? undefined : Whole.safeParse(jsonOf(new TextDecoder().decode(bytes))).data;
  return whole ?? { content, structured };
}

async function blockOf(part: ResultPart, read: Reader): Promise<ContentBlock> {
  switch (part.type) {
    case 'text':
    case 'resource_link':
      return part;
    case 'image':
    case 'audio': {
      const bytes = await read(part.artifact);
      const { type, mimeType } = part;
      return bytes === undefined ? lostPart(type, part.artifact) : { type, mimeType, data: base64(bytes) };
    }
    case 'resource': {
      const { uri, text, artifact } = part;
      const head = { uri, ...defined({ mimeType: part.mimeType }) };
      if (artifact === undefined) return { type: 'resource', resource: { ...head, text: text ?? '' } };
      const bytes = await read(artifact);
      return bytes === undefined
        ? lostPart('resource', artifact)
        : { type: 'resource', resource: { ...head, blob: base64(bytes) } };
    }
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

function lostPart(type: string, { sha256, bytes, contentType }: ArtifactRef): ContentBlock {
  return {
    type: 'text',
    text: `[${type} ${contentType}, ${bytes} bytes, artifact ${sha256}: too large, or not to be read here]`,
  };
}

/**
 * Returns the answer to a message of which something would be lost, or that would not be got through; undefined without
 * such a thing. Whoever called would have another call made than it wrote, so it is made by nobody.
 */
export function notAsWritten(text: string): object | undefined {
  const reason = lostIn(text);
  if (reason === undefined) return undefined;
  const message = `The message ${reason}. Nothing was called.`;
  return { jsonrpc: '2.0', id: idIn(text), error: { code: -32_602, message } };
}

function lostIn(text: string): string | undefined {
  const number = changedNumber(text);
  if (number !== undefined) return changedNumberText(number);
  if (isTooDeep(text, MOST_LEVELS)) return TOO_DEEP;
  if (jsonOf(text) === undefined) return undefined;
  const name = repeatedMember(text);
  if (name !== undefined) return repeatedMemberText(name);
  return namesPrototype(text) ? PROTOTYPE_TEXT : undefined;
}

function idIn(text: string): string | number | null {
  return z.object({ id: z.union([z.string(), z.number()]) }).safeParse(jsonOf(text)).data?.id ?? null;
}
