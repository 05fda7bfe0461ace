/** The sandbox takes what is a message, and refuses all else with a path and a reason (S2.3: extra fields rejected). */
import { describe, expect, test } from '@jest/globals';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { HeldQuestions } from '../../../../contracts/schemas/legacy-2025.ts';
import {
  isAnswerOf,
  isCallId,
  isIdentifier,
  isInstant,
  isName,
  parseCatalogDecision,
  parseClaims,
  parseConnect,
  type Parsed,
  parseDecision,
  parseForget,
  parseHeldQuestions,
  parsePolicies,
  parseRefresh,
  parseResolution,
  parseSay,
  parseStop,
} from '../../../../domain/shapes/inputs.ts';
import { ODD_NAMES } from '../../../support/builders/catalog-arbitraries.ts';
import { catalogDecision, definition } from '../../../support/builders/catalog.ts';
import { answer, approval, edit, extension, rejection, say, stop } from '../../../support/builders/decision.ts';
import { heldQuestions } from '../../../support/builders/held-input.ts';
import { recorded, recordedFailure, retry } from '../../../support/builders/pause.ts';
import { NAME, PAGE } from '../../../support/builders/provision.ts';

const IDENTIFIER = 'must be 1 to 200 printable ASCII characters without spaces';
const TIME = 'must be a time like 2026-01-31T09:00:00.000Z';
const HINT = 'is not a known field: approvals count only as a `decide` update';
const by = { id: 'ann', groups: [] };

const bad = (parsed: Parsed<unknown>): string => (parsed.kind === 'bad' ? `${parsed.path}: ${parsed.reason}` : 'ok');

/** F23: deep enough to end the stack of code that walks it. */
function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = { a: value };
  return value;
}

/** Only JSON can hold such a field. */
function withProto(value: unknown, before: string): unknown {
  return JSON.parse(JSON.stringify(value).replace(before, `${before}"__proto__":{"kind":"approve"},`));
}

describe('what is taken', () => {
  test('is the message itself, with groups and the way to stop filled in', () => {
    const { approver: _approver, ...rest } = approval({ comment: 'fine' });
    const value = approval({ comment: 'fine' });
    expect(parseDecision({ ...rest, approver: { id: 'ann' } })).toEqual({ kind: 'ok', value });
    const inGroups = rejection({ approver: { id: 'ann', groups: ['ops', 'sec'] } });
    expect(parseDecision(inGroups)).toEqual({ kind: 'ok', value: inGroups });
    expect(parseSay(say())).toEqual({ kind: 'ok', value: say() });
    expect(parseStop({ by: 'ann', reason: 'done' })).toEqual({ kind: 'ok', value: stop({ reason: 'done' }) });
    expect(parseStop(stop({ inFlight: 'cancel' }))).toEqual({ kind: 'ok', value: stop({ inFlight: 'cancel' }) });
  });

  test('a field that is there without a value is like one that is not there', () => {
    const value = { by: 'ann', reason: 'x', inFlight: undefined };
    expect(parseStop(value)).toEqual({ kind: 'ok', value: { by: 'ann', reason: 'x', inFlight: 'finish' } });
  });

  test('F23: arguments of 100 levels are taken, and of 100,000 are refused', () => {
    expect(parseDecision(edit({ a: nested(99) as JsonObject })).kind).toBe('ok');
    expect(parseDecision({ ...approval(), arguments: nested(100_000) }).kind).toBe('bad');
  });

  test.each([
    { scope: 'call', until: '2026-01-01T02:00:00.000Z' },
    { scope: 'arguments', names: ['a'] },
    { scope: 'tool' },
  ])('an approval that is remembered: %j', (remember) => {
    expect(parseDecision({ ...approval(), remember })).toMatchObject({ kind: 'ok', value: { remember } });
  });

  test.each([retry({ comment: 'seen' }), recorded(), recordedFailure()])('a word on a lost answer: %j', (value) => {
    expect(parseResolution(value)).toEqual({ kind: 'ok', value });
  });

  test('a question on an open connection, with every kind of field', () => {
    const label = { title: 'T', description: 'D' };
    const options = [{ value: 'a', title: 'A' }, { value: 'b' }];
    const fields = {
      plain: { type: 'text' },
      text: { type: 'text', ...label, minLength: 1, maxLength: 2, format: 'date-time', default: 'x' },
      number: { type: 'number', minimum: 0.5, maximum: 2, default: 1 },
      integer: { type: 'integer', ...label },
      boolean: { type: 'boolean', default: false },
      choice: { type: 'choice', options, default: 'a' },
      choices: { type: 'choices', options, minItems: 0, maxItems: 2, default: ['a'] },
    };
    // Sound: a form of every kind of field.
    const requests = { form: { ...NAME, fields, required: ['text'] }, page: PAGE } as HeldQuestions['requests'];
    const value = heldQuestions({ attempt: 5, round: 10, requests });
    expect(parseHeldQuestions(value)).toEqual({ kind: 'ok', value });
  });

  test('messages to a catalog, with lists filled in, and a server that is not trusted', () => {
    expect(parseConnect({ requestId: 'r', by: { id: 'ann' }, url: 'https://a.example' })).toEqual({
      kind: 'ok',
      value: { requestId: 'r', by, url: 'https://a.example', trusted: false },
    });
    const changes = [
      { tool: 'a', approvers: { ids: ['bob'] } },
      { tool: 'b', approvers: null },
    ];
    expect(parsePolicies({ requestId: 'r', by, expectedVersion: 0, changes })).toMatchObject({
      kind: 'ok',
      value: { changes: [{ approvers: { ids: ['bob'], groups: [] } }, { approvers: null }] },
    });
  });

  test.each(ODD_NAMES)('S3.5: a tool named %s, as it is', (tool) => {
    const value: unknown = JSON.parse(JSON.stringify({ requestId: 'r', by, expectedVersion: 0, changes: [{ tool }] }));
    expect(parsePolicies(value)).toEqual({ kind: 'ok', value });
  });

  test('as many changes as the contract says, and no more', () => {
    const batch = (length: number) =>
      parsePolicies({ requestId: 'r', by, expectedVersion: 0, changes: Array.from({ length }, () => ({ tool: 'a' })) });
    expect(bad(batch(1_000))).toBe('ok');
    expect(bad(batch(1_001))).toBe('changes: must have at most 1000 entries');
    expect(bad(batch(0))).toBe('changes: must have at least 1 entries');
  });

  test('ids, names and times by themselves', () => {
    expect([isIdentifier('ann@x'), isIdentifier('a b'), isIdentifier(7)]).toEqual([true, false, false]);
    expect([isName('files'), isName('-a'), isName(undefined)]).toEqual([true, false, false]);
    expect([isCallId('t1.c0'), isCallId('t0.c0')]).toEqual([true, false]);
    expect([isInstant('2024-02-29T23:00:00.000Z'), isInstant('2026-01-01T00:00:00Z')]).toEqual([true, false]);
  });
});

describe('what is refused', () => {
  test('S3.9: nothing, a list and a text are no messages', () => {
    for (const parse of [parseDecision, parseConnect, parseRefresh, parseClaims])
      for (const value of [undefined, null, [], 'approve', 7]) expect(bad(parse(value))).toBe(': must be an object');
  });

  test.each<[string, unknown, string]>([
    [
      'a kind',
      { ...approval(), kind: 'maybe' },
      'kind: must be one of "approve", "reject", "withdraw", "extend", "respond", not this text',
    ],
    ['an id', { ...approval(), decisionId: 'a b' }, `decisionId: ${IDENTIFIER}`],
    [
      'a call id, as of a list of tools',
      { ...approval(), callId: 't0.c0' },
      'callId: must look like t1.c0; a list of tools (t0.c0) is answered by authorize',
    ],
    ['a digest', { ...approval(), digest: 'A'.repeat(64) }, 'digest: must be 64 lower-case hexadecimal characters'],
    ['a run id', { ...approval(), runId: '' }, 'runId: must have at least 1 characters'],
    ['an approver', { ...approval(), approver: 'ann' }, 'approver: must be an object, not this text'],
    ["an approver's id", { ...approval(), approver: { id: 'a b' } }, `approver.id: ${IDENTIFIER}`],
    [
      "an approver's groups",
      { ...approval(), approver: { id: 'ann', groups: ['a b'] } },
      `approver.groups[0]: ${IDENTIFIER}`,
    ],
    ['a comment', { ...approval(), comment: 'x'.repeat(4_097) }, 'comment: must have at most 4096 characters'],
    ['no new deadline', { ...extension(), until: undefined }, 'until: is missing; it must be a string'],
    ['a day that is none', { ...extension(), until: '2026-13-01T00:00:00.000Z' }, `until: ${TIME}`],
    ['a time of another spelling', { ...extension(), until: '2026-01-01T01:00:00.000+01:00' }, `until: ${TIME}`],
    ['a field of the other kind', { ...approval(), reason: 'no' }, 'reason: is not a known field'],
    ['arguments of another kind', { ...answer(), arguments: {} }, 'arguments: is not a known field'],
    ['an unknown field', { ...approval(), note: 1 }, 'note: is not a known field'],
    ['a field called __proto__', withProto(approval(), '{'), '__proto__: is not a known field'],
    [
      'a scope with names',
      { ...approval(), remember: { scope: 'call', names: ['a'] } },
      'remember.names: is not a known field',
    ],
    [
      'a scope without',
      { ...approval(), remember: { scope: 'arguments', names: [] } },
      'remember.names: must have at least 1 entries',
    ],
    ['a scope', { ...approval(), remember: 'call' }, 'remember: must be an object, not this text'],
    ...[withProto({ a: [{ b: 1 }] }, '[{'), withProto({ a: 1 }, '{'), nested(101)].map(
      (args): [string, unknown, string] => [
        'arguments that can be read in two ways, or not at all',
        { ...approval(), arguments: args },
        'arguments: must have at most 100 levels, finite numbers, and no fields called __proto__',
      ],
    ),
    ['arguments that are no object', { ...approval(), arguments: [] }, 'arguments: must be an object, not a list'],
  ])('%s is named with what it must be', (_what, value, reason) => {
    expect(bad(parseDecision(value))).toBe(reason);
  });

  test('a number that JSON.parse makes infinite is refused at once, however many there are (INV-G2)', () => {
    const args: unknown = JSON.parse(`{"a":[${'1e999,'.repeat(200_000)}1]}`);
    expect(bad(parseDecision({ ...approval(), arguments: args }))).toBe(
      'arguments: must have at most 100 levels, finite numbers, and no fields called __proto__',
    );
  });

  test('a message with more values than a schema may explain is refused before the schema sees it', () => {
    const many = (count: number) => ({ ...say(), more: Array(count).fill(0) });
    expect(bad(parseSay(many(100_000)))).toBe('more: must leave the message with at most 100000 values');
    expect(bad(parseSay(many(90_000)))).toBe('more: is not a known field');
    const args = { a: Array(150_000).fill(0) };
    expect(parseDecision({ ...approval(), arguments: args })).toMatchObject({ kind: 'ok' });
  });

  test.each([{ a: undefined }, { a: Number.NaN }, { a: [() => 1] }])('arguments that are no JSON: %p', (args) => {
    expect(parseDecision({ ...approval(), arguments: args })).toMatchObject({
      kind: 'bad',
      path: expect.stringMatching(/^arguments/),
    });
  });

  test('S4.4: an approval that rides in another message is refused by name, whatever else is wrong', () => {
    expect(bad(parseSay({ ...say(), approved: true }))).toBe(`approved: ${HINT}`);
    expect(bad(parseSay({ ...say(), text: 7, note: 1, approved: true }))).toBe(`approved: ${HINT}`);
    expect(bad(parseSay({ ...say(), type: 'mcp_approval_response' }))).toBe(`type: ${HINT}`);
    expect(bad(parseStop({ ...stop(), decision: 'approve' }))).toBe(`decision: ${HINT}`);
    expect(bad(parseSay({ ...say(), type: 'text' }))).toBe('type: is not a known field');
    expect(bad(parseForget({ standing: 'd-1', by, callId: 't1.c0' }))).toBe('callId: is not a known field');
  });

  test.each([
    ['a result that comes with a retry', { ...retry(), result: 'x' }, 'result'],
    ['no result', { ...recorded(), result: undefined }, 'result'],
    ['no message', { ...recordedFailure(), message: '' }, 'message'],
    ['an approval in its place', { ...retry(), kind: 'approve' }, 'kind'],
    ['a kind that every object has', { ...retry(), kind: 'constructor' }, 'kind'],
  ])('of a lost answer: %s', (_what, value, path) => {
    expect(parseResolution(value)).toMatchObject({ kind: 'bad', path });
  });

  test.each([
    ['a call of no turn', { callId: 't0.c0' }, 'callId'],
    ['no round', { round: 0 }, 'round'],
    ['a question of another kind', { requests: { who: { ...NAME, kind: 'sampling' } } }, 'requests.who.kind'],
    ['a question called __proto__', { requests: withProto({ a: 1 }, '{') }, 'requests'],
    ['an approval beside it', { approved: true }, 'approved'],
  ])('of a question on an open connection: %s', (_what, over, path) => {
    expect(parseHeldQuestions({ ...heldQuestions(), ...over })).toMatchObject({ kind: 'bad', path });
  });

  test('INV-S1: a secret in the URL of a server is refused, and not shown', () => {
    const reason = bad(parseConnect({ requestId: 'r', by, url: 'https://a.example/?api_key=canary' }));
    expect(reason).toBe('url: must hold no secret; name credentials of the configuration instead');
  });

  test.each<[string, unknown, string]>([
    ['a change that is none', 7, 'changes[0]: must be an object, not a number'],
    ['an unknown field', { tool: 'a', hidden: true }, 'changes[0].hidden: is not a known field'],
    ['a tool without a name', { tool: '' }, 'changes[0].tool: must have at least 1 characters'],
    ['a flag', { tool: 'a', enabled: 'yes' }, 'changes[0].enabled: must be a boolean, not this text'],
    [
      'four eyes',
      { tool: 'a', approvers: { notInitiator: false } },
      'changes[0].approvers.notInitiator: must be true, not a boolean',
    ],
    [
      'a quorum of one',
      { tool: 'a', approvers: { ids: ['ann'], need: 1 } },
      'changes[0].approvers.need: must be at least 2',
    ],
    ['an approver', { tool: 'a', approvers: { ids: ['a b'] } }, `changes[0].approvers.ids[0]: ${IDENTIFIER}`],
    ['a deadline', { tool: 'a', deadlineSeconds: 0 }, 'changes[0].deadlineSeconds: must be at least 1'],
  ])('of a catalog: %s is named with where it stands and what it must be', (_what, change, reason) => {
    expect(bad(parsePolicies({ requestId: 'r', by, expectedVersion: 0, changes: [change] }))).toBe(reason);
  });

  test('a connection that is not one is named by its field', () => {
    const connecting = { requestId: 'r', by, url: 'https://a.example' };
    expect(bad(parseConnect({ ...connecting, url: 'a.example' }))).toContain('url: must be an http or https URL');
    expect(bad(parseConnect({ ...connecting, credentials: '-a' }))).toContain('credentials: must be 1 to 64 of');
    expect(bad(parseConnect({ ...connecting, headers: {} }))).toBe('headers: is not a known field');
    expect(bad(parseCatalogDecision({ ...catalogDecision(), digest: definition('x').toUpperCase() }))).toContain(
      'digest: must be 64 lower-case hexadecimal characters',
    );
  });
});

describe('answers of activities', () => {
  const REF = { sha256: 'a', bytes: 1, contentType: 'application/json' };
  const STEP = { parts: [], usage: { inputTokens: 1, outputTokens: 1 }, finish: 'stop' };

  test.each([
    ['storeSegment', REF],
    ['storeSegment', { ...REF, of: 'a later release' }],
    ['readTrust?', undefined],
    ['readTrust?', null],
    ['readTrust?', { keys: [{}], maxAgeSeconds: 900 }],
    ['callTool', { kind: 'ended', outcome: { kind: 'succeeded' } }],
    ['callTool', { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'away' }],
    ['discoverTools', { server: 'bank', authorization: { reason: 'GRANT_MISSING', message: 'None.', wants: 'grant' } }],
    ['discoverTools', { server: 'bank', tools: REF, refused: [] }],
    ['stretch', { turns: [{ step: STEP, at: 8.64e15 }], times: { prepared: 1, listed: 2 } }],
  ] as const)('%s answers with %j', (activity, value) => {
    expect(isAnswerOf(activity, value)).toBe(true);
  });

  const WHY = { code: 'TOOL_UNAVAILABLE', message: 'Later.' };
  const NOT_SENT = { kind: 'not-sent', ...WHY };
  const LOST_GRANT = { kind: 'ended', outcome: { kind: 'failed', ...WHY } };
  const RULE = {
    allOf: [{ ids: ['ann'], groups: [], escalate: { afterSeconds: 60, add: { ids: [], groups: ['ops'] } } }],
  };
  const ASK = { kind: 'ask', approvers: RULE };

  test.each([
    { ...NOT_SENT, retryAfterMs: 1_234.5, held: { by: 'rate', atMostSeconds: 604_800 } },
    { ...NOT_SENT, kind: 'reopen', approvers: RULE, deadlineSeconds: 31_536_000, definition: { hash: 'h' } },
    {
      ...NOT_SENT,
      kind: 'reopen',
      approvers: {
        allOf: [{ ids: ['ann'], groups: [], need: 2, not: ['bob'] }],
        validForSeconds: 1,
        extendableToSeconds: 31_536_000,
        remindAfterSeconds: 60,
      },
    },
    { kind: 'input', round: 1, used: [], requests: { name: NAME, page: PAGE } },
    {
      ...LOST_GRANT,
      authorization: {
        reason: 'TOOL_UNAUTHORIZED',
        message: 'No.',
        wants: 'consent',
        scopes: ['a'],
        asked: { approvers: RULE, deadlineSeconds: 60 },
      },
    },
  ])('callTool answers with %j', (value) => {
    expect(isAnswerOf('callTool', value)).toBe(true);
  });

  test.each([
    ['storeSegment', undefined],
    ['storeSegment', null],
    ['storeSegment', 7],
    ['storeSegment', [REF]],
    ['storeSegment', new Uint8Array(8)],
    ['storeSegment', { ...REF, bytes: -1 }],
    ['storeSegment', { ...REF, bytes: 0.5 }],
    ['storeSegment', { ...REF, sha256: 1 }],
    ['readTrust?', { keys: {}, maxAgeSeconds: 900 }],
    ['readTrust?', { keys: [7], maxAgeSeconds: 900 }],
    ['callTool', { kind: 'ended' }],
    ['callTool', { kind: 'else', outcome: { kind: 'succeeded' } }],
    ['callTool', { kind: 'ended', outcome: { kind: 'succeeded', result: {} } }],
    ['callTool', { kind: 'ended', outcome: { kind: 'failed', code: 7 } }],
    ['callTool', { kind: 'ended', outcome: { kind: 'failed', code: null } }],
    ['judge', { policyVersion: 'p', judgements: [{ callId: 't1.c0', verdict: { kind: 'ask' } }] }],
    // A run that takes one of these would never go on: a timer of no time, a date that is none, a list that is none.
    ['callTool', { ...NOT_SENT, retryAfterMs: 'soon' }],
    ['callTool', { ...NOT_SENT, retryAfterMs: 1e15 }],
    ['callTool', { ...NOT_SENT, held: {} }],
    ['callTool', { ...NOT_SENT, held: { by: 'rate', atMostSeconds: -1 } }],
    ['callTool', { ...NOT_SENT, kind: 'reopen', approvers: { allOf: [{}] } }],
    ['callTool', { ...NOT_SENT, kind: 'reopen', approvers: { ...RULE, validForSeconds: -1e300 } }],
    ['callTool', { ...NOT_SENT, kind: 'reopen', approvers: { ...RULE, extendableToSeconds: 'long' } }],
    ['callTool', { ...NOT_SENT, kind: 'reopen', approvers: { ...RULE, remindAfterSeconds: {} } }],
    ['callTool', { ...NOT_SENT, kind: 'reopen', approvers: { allOf: [{ ids: [], groups: [], need: 'two' }] } }],
    ['callTool', { ...NOT_SENT, kind: 'reopen', deadlineSeconds: 8e12 }],
    ['callTool', { kind: 'input', round: 1, used: [], requests: { name: null } }],
    ['callTool', { ...LOST_GRANT, authorization: { reason: 'TOOL_UNAUTHORIZED', wants: 'grant' } }],
    ['discoverTools', { server: 'files', authorization: {} }],
    ['judge', { policyVersion: 'p', judgements: [{ callId: 't1.c0', verdict: { ...ASK, deadlineSeconds: 8e12 } }] }],
    [
      'judge',
      {
        policyVersion: 'p',
        judgements: [{ callId: 't1.c0', verdict: { kind: 'allow' }, target: { server: 7, tool: 'x' } }],
      },
    ],
    ['stretch', { turns: null }],
    ['stretch', { turns: [{ step: STEP, at: 1, calls: null }] }],
    ['stretch', { turns: [{ step: STEP, at: 8.64e15 + 1 }] }],
    ['stretch', { turns: [{ step: STEP, at: 1, calls: [{ callId: 't1.c0', digest: 'd', sentAt: 8.64e15 + 1 }] }] }],
    ['stretch', { turns: [], times: null }],
    ['stretch', { turns: [], times: { prepared: 1, listed: 8.64e15 + 1 } }],
    ['stretch', { turns: [], found: null }],
    ['modelStep', { parts: [null], usage: { inputTokens: 1, outputTokens: 1 }, finish: 'stop' }],
  ] as const)('%s does not answer with %j', (activity, value) => {
    expect(isAnswerOf(activity, value)).toBe(false);
  });
});
