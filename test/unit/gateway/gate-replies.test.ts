/** What an MCP client reads of a call: each outcome in words and in `_meta`, results whole, and nothing that is not there. */
import { describe, expect, test } from '@jest/globals';
import type { Outcome, ToolResult } from '../../../contracts/schemas/call.ts';
import type { ArtifactRef } from '../../../contracts/schemas/json.ts';
import {
  type Asked,
  CALL_META,
  endedReply,
  type Pending,
  pendingReply,
  refusedReply,
  statusOf,
} from '../../../gateway/gate/replies.ts';

const REFERENCE = 'gate-00000000-0000-0000-0000-000000000001';
const PICTURE = refOf('a', 3, 'image/png');

function refOf(letter: string, bytes: number, contentType: string): ArtifactRef {
  return { sha256: letter.repeat(64), bytes, contentType };
}

function storeOf(kept: Readonly<Record<string, string>>) {
  return {
    get: async ({ sha256 }: ArtifactRef) => {
      const text = kept[sha256];
      if (text === undefined) throw new Error('it is not there');
      return new TextEncoder().encode(text);
    },
  };
}

async function told(outcome: Outcome, over: object = {}, artifacts = storeOf({})) {
  return await endedReply(REFERENCE, { callId: 't1.c0', outcome, ...over }, artifacts);
}

const succeeded = (result: Partial<ToolResult>): Outcome => ({
  kind: 'succeeded',
  result: { content: [{ type: 'text', text: 'done' }], ...result },
});

describe('a result of the tool', () => {
  test('is handed on part by part, with its structure and no mark of an error', async () => {
    const link = { type: 'resource_link', uri: 'file:///a', name: 'a' } as const;
    const content = [{ type: 'text', text: 'done' } as const, link];
    const reply = await told(succeeded({ content, structured: { paid: true } }));
    expect(reply).toEqual({
      content,
      structuredContent: { paid: true },
      _meta: { [CALL_META]: { reference: REFERENCE, status: 'succeeded' } },
    });
  });

  test('keeps its mark of an error, and a structure that is no object is left out', async () => {
    const result = { content: [{ type: 'text' as const, text: 'no money' }], structured: ['x'] };
    const failed = await told({ kind: 'failed', code: 'TOOL_ERROR', message: 'no money', executed: true, result });
    expect(failed).toEqual({
      content: result.content,
      isError: true,
      _meta: { [CALL_META]: { reference: REFERENCE, status: 'failed', code: 'TOOL_ERROR' } },
    });
  });

  test('has its pictures and files, and says of those that cannot be read what they were', async () => {
    const lost = refOf('b', 9, 'audio/wav');
    const content = [
      { type: 'image' as const, mimeType: 'image/png', artifact: PICTURE },
      { type: 'audio' as const, mimeType: 'audio/wav', artifact: lost },
      { type: 'resource' as const, uri: 'file:///x', artifact: PICTURE },
      { type: 'resource' as const, uri: 'file:///y', text: 'words' },
      { type: 'image' as const, mimeType: 'image/png', artifact: refOf('a', 9_000_000, 'image/png') },
    ];
    const reply = await told(succeeded({ content }), {}, storeOf({ [PICTURE.sha256]: 'png' }));
    const data = Buffer.from('png').toString('base64');
    expect(reply.content).toEqual([
      { type: 'image', mimeType: 'image/png', data },
      { type: 'text', text: expect.stringContaining(`audio audio/wav, 9 bytes, artifact ${lost.sha256}`) },
      { type: 'resource', resource: { uri: 'file:///x', blob: data } },
      { type: 'resource', resource: { uri: 'file:///y', text: 'words' } },
      { type: 'text', text: expect.stringContaining('9000000 bytes') },
    ]);
  });

  test('of which the run keeps a preview is given whole, or as the preview where the whole cannot be read', async () => {
    const full = refOf('c', 40, 'application/json');
    const whole = { content: [{ type: 'text', text: 'all of it' }], structured: { n: 1 } };
    const preview = succeeded({ content: [{ type: 'text', text: '[Cut]' }], full });
    expect(await told(preview, {}, storeOf({ [full.sha256]: JSON.stringify(whole) }))).toMatchObject({
      content: whole.content,
      structuredContent: { n: 1 },
    });
    for (const store of [storeOf({}), storeOf({ [full.sha256]: '{"content": 7}' })])
      expect((await told(preview, {}, store)).content).toEqual([{ type: 'text', text: '[Cut]' }]);
  });

  test('of a call with other arguments says whose and which before anything else', async () => {
    const edited = { by: 'ben', arguments: { amount: 1 } };
    const reply = await told(succeeded({}), { edited });
    expect(reply.content).toEqual([
      { type: 'text', text: expect.stringContaining('ben approved this call with other arguments') },
      { type: 'text', text: 'done' },
    ]);
    expect(reply._meta).toEqual({ [CALL_META]: { reference: REFERENCE, status: 'succeeded', edited } });
  });
});

test.each<[Outcome, string]>([
  [{ kind: 'rejected', by: 'ben', reason: 'not today' }, 'not today'],
  [{ kind: 'expired', deadline: '2026-11-24T00:00:00Z' }, 'nobody decided'],
  [{ kind: 'denied', code: 'POLICY_DENIED', message: 'No.' }, 'POLICY_DENIED'],
  [{ kind: 'cancelled', reason: 'stopped' }, 'cancelled'],
  [{ kind: 'unknown', code: 'ANSWER_LOST', message: 'It is lost.' }, 'not known whether'],
  [{ kind: 'answered', by: 'ben', answer: '42' }, "in the tool's place"],
  [{ kind: 'failed', code: 'TOKEN_REFUSED', message: 'No token.', executed: false }, 'Not executed'],
  [{ ...succeeded({}), recordedBy: 'ben' } as Outcome, 'has found out what became of it'],
])('%j is an error that a model can read, and takes no words of the tool for its own', async (outcome, words) => {
  const reply = await told(outcome);
  expect(reply).toMatchObject({ isError: true, content: [{ type: 'text', text: expect.stringContaining(words) }] });
  expect(reply.structuredContent).toBeUndefined();
  expect(statusOf(reply)).toBe(outcome.kind);
});

test('a call that waits for consent has not run, and says how its outcome is had; a refused one ran nothing', () => {
  const waiting = pendingReply(waitingFor('consent'));
  expect(waiting.isError).toBeUndefined();
  const [{ text } = { text: '' }] = waiting.content as readonly { readonly text: string }[];
  for (const words of ['has not run', 'https://x.example/runs/1', REFERENCE, 'countersign_result'])
    expect(text).toContain(words);
  const running = pendingReply({ reference: REFERENCE, status: 'running' });
  expect(JSON.stringify(running.content)).not.toContain('has not run');
  expect([statusOf(waiting), statusOf(running), statusOf({ content: [] })]).toEqual(['waiting', 'running', 'other']);
  expect(refusedReply('CALL_UNKNOWN', 'There is none.')).toMatchObject({ isError: true });
});

test.each<[Asked, string]>([
  ['again', 'may have run'],
  ['outcome', 'It is not known whether this call has run'],
  ['input', 'has begun'],
  ['authorization', 'another authorization'],
])('a call that waits for an answer of kind "%s" is not said not to have run (INV-X2)', (asked, words) => {
  const reply = pendingReply(waitingFor(asked));
  expect(JSON.stringify(reply.content)).toContain(words);
  expect(JSON.stringify(reply.content)).not.toContain('has not run');
  expect(reply._meta?.[CALL_META]).toMatchObject({ status: 'waiting', asked });
});

function waitingFor(asked: Asked): Pending {
  const deadline = '2026-01-02T00:00:00.000Z';
  return { reference: REFERENCE, status: 'waiting', asked, page: 'https://x.example/runs/1', deadline };
}
