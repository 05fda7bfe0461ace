/** What models, tools and servers say never reaches a terminal as anything but visible text (DESIGN §4). */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { safeJson } from '../../../../cli/session/verb.ts';
import { connectionDifferences } from '../../../../cli/verbs/catalog-file.ts';
import { plain } from '../../../../cli/session/terminal.ts';
import {
  changeAnswer,
  connectAnswer,
  decidedAnswer,
  planAnswer,
  refreshAnswer,
} from '../../../../cli/views/catalog-change.ts';
import { catalogAnswer, catalogsAnswer, diffAnswer, toolAnswer, toolsAnswer } from '../../../../cli/views/catalog.ts';
import { entryText } from '../../../../cli/views/ledger.ts';
import { requestText } from '../../../../cli/views/request.ts';
import { outputText, resultText } from '../../../../cli/views/run.ts';
import type { EffectiveVerdict } from '../../../../client/index.ts';
import type { LedgerEntry, LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { sha256Hex } from '../../../../domain/text/canonical.ts';
import { spaced } from '../../../../domain/text/escape.ts';
import { importPlan, wantedTool } from '../../../../domain/catalog/file.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { catalogEntry, catalogSnapshot, definition, toolSetting } from '../../../support/builders/catalog.ts';
import { acceptedFact, ledgerOf, openedFact, verdictFact } from '../../../support/builders/ledger.ts';
import { forAll } from '../../../support/for-all.ts';

/** Clears the screen, colours in C1, returns the carriage, reverses the text, hides in zero width. */
const HOSTILE = '\u001b[2J\u009b31m\rgood\u202eevil\u200b\u0007';
const INERT = '\\u{1b}[2J\\u{9b}31m\\u{d}good\\u{202e}evil\\u{200b}\\u{7}';
/** All that a terminal acts on, or does not show. */
const ACTIVE = /[^\P{C}\n]|[\p{Zl}\p{Zp}]/u;
const h = 'a'.repeat(64);
const hostileSetting = toolSetting({ requiresApproval: true, approvers: { ids: [HOSTILE], groups: [HOSTILE] } });
const NOW = Date.parse('2026-01-01T00:10:00.000Z');

test('a hostile request is shown, whole and inert', () => {
  const request = {
    ...approvalRequest({ path: HOSTILE }),
    server: 'files',
    tool: HOSTILE,
    description: HOSTILE,
    annotations: { title: HOSTILE },
    reopenedBecause: HOSTILE,
    duplicateOf: HOSTILE,
  };
  const text = requestText(request, { full: true, now: NOW }, plain);
  expect(text).not.toMatch(ACTIVE);
  expect(text.split(INERT)).toHaveLength(5);
  // As JSON wrote them already, C0 controls are \uXXXX there.
  expect(text).toContain('"path":"\\u001b[2J\\u{9b}31m\\rgood\\u{202e}evil\\u{200b}\\u0007"');
});

test('every fact of a ledger is one inert line', () => {
  const by = { id: HOSTILE, groups: [HOSTILE] };
  const facts: LedgerFact[] = [
    {
      kind: 'run.started',
      agent: HOSTILE,
      model: HOSTILE,
      initiator: HOSTILE,
      tenant: HOSTILE,
      specHash: h,
      policyVersion: h,
      servers: [HOSTILE],
    },
    { kind: 'tools.discovered', server: HOSTILE, count: 1, toolsHash: h, refused: [HOSTILE] },
    { kind: 'turn.proposed', turn: 1, calls: 2, usage: { inputTokens: 1, outputTokens: 2 } },
    verdictFact({ callId: HOSTILE, rules: [HOSTILE], server: HOSTILE, tool: HOSTILE }),
    openedFact({
      approvers: { allOf: [{ layer: 'run', ids: [HOSTILE], groups: [HOSTILE] }] },
      because: HOSTILE,
      duplicateOf: HOSTILE,
    }),
    acceptedFact({ approver: { id: HOSTILE, groups: [] }, comment: HOSTILE }),
    { kind: 'decision.refused', callId: 't1.c0', decisionId: 'd', approver: HOSTILE, code: HOSTILE },
    { kind: 'request.closed', callId: 't1.c0', generation: 2, status: 'expired' },
    { kind: 'dispatched', callId: 't1.c0', attempt: 1, decisionId: HOSTILE },
    {
      kind: 'outcome',
      callId: 't1.c0',
      outcome: 'failed',
      code: HOSTILE,
      outcomeHash: h,
      warnings: [HOSTILE],
      repeatOf: HOSTILE,
    },
    { kind: 'said', messageId: 'm', from: HOSTILE, textHash: h },
    { kind: 'stop.requested', by: HOSTILE, reason: HOSTILE, inFlight: 'finish' },
    { kind: 'cancel.requested' },
    { kind: 'limit.reached', limit: HOSTILE, value: 3 },
    { kind: 'run.rolled', turn: 1, because: HOSTILE },
    { kind: 'run.ended', status: 'failed', code: HOSTILE },
    {
      kind: 'catalog.connected',
      tenant: HOSTILE,
      server: HOSTILE,
      by,
      connection: { url: HOSTILE, trusted: true },
      policyVersion: 1,
    },
    { kind: 'catalog.disconnected', by, policyVersion: 2 },
    {
      kind: 'catalog.refreshed',
      refresh: 1,
      count: 2,
      listing: h,
      added: [HOSTILE],
      missing: [HOSTILE],
      returned: [HOSTILE],
      changed: [{ tool: HOSTILE, before: h, after: h }],
      refused: [HOSTILE],
    },
    { kind: 'catalog.refresh-failed', refresh: 2, code: HOSTILE, message: HOSTILE },
    {
      kind: 'catalog.policy',
      by,
      countersignedBy: by,
      policyVersion: 3,
      trusted: false,
      changes: Array.from({ length: 7 }, () => ({
        tool: HOSTILE,
        before: toolSetting(),
        after: hostileSetting,
        acknowledged: h,
      })),
    },
    { kind: 'catalog.change-opened', changeId: HOSTILE, digest: h, by, deadline: HOSTILE },
    { kind: 'catalog.change-closed', changeId: HOSTILE, by, status: 'outdated' },
    { kind: 'catalog.rolled' },
  ];
  for (const entry of ledgerOf(facts)) {
    const line = entryText(entry, plain);
    expect(line).not.toMatch(ACTIVE);
    expect(line).not.toContain('\n');
    expect(line).toContain(entry.fact.kind);
  }
});

test('all that is shown of a hostile catalog is inert', () => {
  const entry = catalogEntry({
    name: HOSTILE,
    setting: hostileSetting,
    definition: { hash: definition('second'), refresh: 2 },
  });
  const pending = {
    changeId: HOSTILE,
    digest: h,
    by: { id: HOSTILE, groups: [] },
    openedAt: '2026-01-01T00:00:00.000Z',
    deadline: '2999-01-01T00:00:00.000Z',
    trusted: true,
    changes: [{ tool: HOSTILE, requiresApproval: false, acknowledge: h }, { tool: `${HOSTILE} gone` }],
  };
  const refresh = { refresh: 1, at: '2026-01-01T00:00:00.000Z', refused: [{ name: HOSTILE, reason: HOSTILE }] };
  const snapshot = catalogSnapshot([entry], {
    tenant: HOSTILE,
    server: HOSTILE,
    connection: { url: HOSTILE, trusted: true },
    pending: [pending],
    lastRefresh: { ...refresh, ok: false, code: HOSTILE, message: HOSTILE },
  });
  const current = {
    name: HOSTILE,
    title: HOSTILE,
    description: `${HOSTILE}\n\t${HOSTILE}`,
    inputSchema: { [HOSTILE]: HOSTILE },
    annotations: { a: HOSTILE },
  };
  const ask: EffectiveVerdict = {
    kind: 'ask',
    rules: [HOSTILE],
    approvers: { allOf: [{ layer: 'catalog', ids: [HOSTILE], groups: [] }] },
    deadlineSeconds: 60,
  };
  const reading = { snapshot, definitions: new Map([[HOSTILE, { current }]]), verdicts: new Map([[HOSTILE, ask]]) };
  const ack = { requestId: 'r', status: 'waiting', policyVersion: 1, changeId: HOSTILE } as const;
  const report = { ...refresh, ok: true };
  const difference = { added: [HOSTILE], missing: [HOSTILE], returned: [HOSTILE], changed: [HOSTILE] };
  const wanted = new Map([[HOSTILE, wantedTool({ ...toolSetting(), definition: definition('second') })]]);
  const answers = [
    catalogsAnswer(HOSTILE, { snapshots: [snapshot], unread: [HOSTILE] }),
    catalogsAnswer(HOSTILE, { snapshots: [], unread: [] }),
    toolsAnswer(reading),
    catalogAnswer(snapshot, NOW),
    toolAnswer(reading, entry),
    diffAnswer(snapshot, [{ entry, differences: [{ path: HOSTILE, before: HOSTILE, after: { [HOSTILE]: HOSTILE } }] }]),
    diffAnswer(snapshot, []),
    changeAnswer(snapshot, [ack, ack], reading, [HOSTILE]),
    changeAnswer(snapshot, [], reading, []),
    decidedAnswer({ verdict: 'approve', digest: h, ack, change: pending }, reading),
    refreshAnswer({ report, difference, snapshot }),
    connectAnswer(ack, { report, difference, snapshot }, NOW),
    planAnswer(
      snapshot,
      importPlan([entry], wanted),
      connectionDifferences(snapshot.connection, { tools: wanted, connection: { url: 'https://x', trusted: false } }),
    ),
  ];
  for (const { text, json } of answers) {
    expect(text(plain)).not.toMatch(ACTIVE);
    expect(safeJson(json)).not.toMatch(ACTIVE);
  }
  // No line of the server's stands without the bar before it.
  const shown = toolAnswer(reading, entry)
    .text(plain)
    .split('\n')
    .filter((line) => line.includes('good'));
  expect(shown.slice(1).filter((line) => !/│|^ {2}(?:setting|a call|by) /.test(line))).toEqual([]);
});

test('an answer keeps its lines and tabs, and nothing else that moves the cursor', () => {
  expect(outputText(`one\r\n\ttwo ${HOSTILE}\n`)).toBe(`one\n    two ${INERT}`);
  expect(outputText({ said: HOSTILE })).not.toMatch(ACTIVE);
  const result = {
    status: 'limited',
    output: HOSTILE,
    because: HOSTILE,
    turns: 1,
    calls: 1,
    usage: { inputTokens: 1, outputTokens: 1 },
    spent: { millionths: 1, currency: HOSTILE },
    ledgerHead: 'a'.repeat(64),
    ledgerLength: 1,
  } as const;
  expect(resultText(HOSTILE, result, plain)).not.toMatch(ACTIVE);
});

test('what --json prints is inert, one line, and the very same value', () => {
  forAll(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
    const text = safeJson(value);
    expect(text).not.toMatch(ACTIVE);
    expect(text).not.toContain('\n');
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
  });
  expect(safeJson({ [HOSTILE]: HOSTILE })).not.toMatch(ACTIVE);
  expect(safeJson('né 漢 😀')).toBe('"né 漢 😀"');
});

test('arguments are cut only with a mark that says how to see the rest', () => {
  const long = 'x'.repeat(5_000);
  const request = approvalRequest({ content: long, amount: 9_999, 'zz-to': 'Eve' });
  const cut = requestText(request, { full: false, now: NOW }, plain);
  expect(cut).toContain(`"content":"${'x'.repeat(200)}"…(5000 characters, sha256 ${sha256Hex(long).slice(0, 12)})`);
  expect(cut).toContain('} [1 text cut: --full shows all]');
  // What stands behind the long one is there, and before it.
  expect(cut).toMatch(/"amount":9999,\n.*"content".*,\n.*"zz-to":"Eve"\n/);
  const whole = requestText(request, { full: true, now: NOW }, plain);
  expect(whole).toContain(`"${long}"`);
  expect(whole).not.toContain('[1 text cut');
});

test('a text that imitates the mark of a cut stays within its quotes', () => {
  const text = requestText(
    approvalRequest({ a: '"…(9 characters, sha256 aaaaaaaaaaaa)' }),
    { full: false, now: NOW },
    plain,
  );
  expect(text).toContain('"a":"\\"…(9 characters, sha256 aaaaaaaaaaaa)"');
});

/** All that moves or covers its neighbours on some terminal, as Unicode's own scripts and classes name it. */
const MOVING = /[\p{sc=Hebr}\p{sc=Arab}\p{sc=Syrc}\p{sc=Thaa}\p{sc=Nkoo}\p{sc=Adlm}\p{Bidi_Control}\p{M}]/u;

test('keys and amounts stand in the order of the data, whatever script a value is written in (G-6)', () => {
  const script = fc.constantFrom(
    'שלום',
    '100 ש"ח',
    'مرحبا',
    '\u202e',
    '\u2067',
    'e\u0301\u0338',
    '١٢',
    'plain',
    '"',
    '…',
  );
  const text = fc.array(script, { maxLength: 4 }).map((parts) => parts.join(' '));
  forAll(fc.dictionary(text, fc.oneof(text, fc.integer()), { noNullPrototype: true }), fc.boolean(), (args, full) => {
    const request = { ...approvalRequest(args), description: 'שלום 100', tool: 'ש', reopenedBecause: '١٢' };
    for (const shown of [requestText(request, { full, now: NOW }, plain), safeJson(request)]) {
      expect(shown).not.toMatch(ACTIVE);
      expect(shown).not.toMatch(MOVING);
    }
    // Without moving characters a line reads as it is written, so the place of a text says where it stands.
    const out = requestText(request, { full, now: NOW }, plain);
    const places = Object.entries(args)
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, value]) => `${spaced(JSON.stringify(key))}:${spaced(JSON.stringify(value))}`);
    let from = out.indexOf('{');
    for (const member of places) {
      const at = out.indexOf(member, from);
      expect(at).toBeGreaterThan(from);
      from = at + member.length - 1;
    }
  });
});

test('a request shows who may decide, until when, by which rule, under which digest', () => {
  const request: ApprovalRequest = {
    ...approvalRequest(),
    approvers: { allOf: [{ layer: 'run', ids: ['ann'], groups: ['ops'] }] },
  };
  const text = requestText(request, { full: false, now: NOW }, plain);
  for (const part of [
    request.digest,
    'ann or anybody in ops',
    '2026-01-01 01:00:00Z, 50 min left',
    'organisation/default',
    'waits for 10 min',
    request.serverUrl,
  ])
    expect(text).toContain(part);
});

test('a request says that the provider of a model makes the call, and only then (docs/adr/0080)', () => {
  const shown = (request: ApprovalRequest): string => requestText(request, { full: true, now: 0 }, plain);
  expect(shown({ ...approvalRequest(), hosted: 'gpt' })).toMatch(/^ *called by +the provider of model gpt$/m);
  expect(shown({ ...approvalRequest(), hosted: 'g\u202Ept' })).not.toContain('\u202E');
  expect(shown(approvalRequest())).not.toContain('called by');
});

test.each(['run.frozen', 'toString'])(
  'a fact of a later build (%s) is written like others, and stops no list',
  (kind) => {
    // Sound: a page of a live run is not parsed, so the type does not hold for what a later worker wrote.
    const entry = { seq: 7, at: '2026-01-01T00:00:00.000Z', fact: { kind, callId: 't1.c0' } } as unknown as LedgerEntry;
    expect(entryText(entry, plain)).toBe(`   7  2026-01-01T00:00:00.000Z  ${kind.padEnd(17)}  t1.c0`);
  },
);
